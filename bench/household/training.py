"""One training run: rollouts, a judge, a credit rule, an optimizer step, until the tokens or the steps are used up."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bench.household.episodes import Played, play
from bench.household.methods import AUDIT_SHARE, Judge, Method
from bench.household.policy import Network
from bench.household.world import Floats, Ints, Study, Worlds, draw
from prover.credit.record import audited_bonus

GROUP_SIZE = 8
GAIN_SAMPLES = 32
"""Continuations from which the judges of the studies know a turn's true gain. Not counted: a judge is no rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When a run ends: after `tokens` generated tokens, or after `steps` optimizer steps."""

    tokens: int | None = None
    steps: int | None = None

    def is_used_up(self, tokens: int, steps: int) -> bool:
        """Whichever comes first."""
        return (self.tokens is not None and tokens >= self.tokens) or (self.steps is not None and steps >= self.steps)


@dataclass(slots=True)
class Tally:
    """What a run has generated and how it has done; `curve` is (tokens so far, success of the step's rollouts)."""

    rollout_tokens: int = 0
    continuation_tokens: int = 0
    steps: int = 0
    eligible: int = 0
    groups: int = 0
    curve: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])

    @property
    def tokens(self) -> int:
        """All generated tokens."""
        return self.rollout_tokens + self.continuation_tokens

    def score(self, budget: Budget) -> float:
        """Mean success over training: over generated tokens, or over steps where those are the budget."""
        success = np.array([value for _, value in self.curve])
        if budget.tokens is None:
            return float(success.mean())
        ends = np.minimum(np.array([tokens for tokens, _ in self.curve]), budget.tokens)
        return float((np.diff(ends, prepend=0) * success).sum() / ends[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What an optimizer step takes: one row a sampled token."""

    x: Floats
    actions: Ints
    advantages: Floats


class Run:
    """One seed of one method at one rate."""

    def __init__(self, study: Study, method: Method, *, rate: float, seed: int, start: float) -> None:
        self._study, self._method, self._rate = study, method, rate
        self._rng = np.random.default_rng([seed, 1])
        self._judge_rng = np.random.default_rng([seed, 2])
        self._record: list[float] = []
        self.network = _warm(study, seed, start)
        self.tally = Tally()

    def train(self, budget: Budget) -> None:
        """Steps until the budget is used up."""
        while not budget.is_used_up(self.tally.tokens, self.tally.steps):
            self._step()

    def _step(self) -> None:
        tasks = draw(self._study, self._method.groups, self._rng)
        rollouts = play(self.network, tasks.take(np.repeat(np.arange(len(tasks)), GROUP_SIZE)), self._study, self._rng)
        advantages = _group_advantages(rollouts, normalise=self._method.normalise)
        tally = self.tally
        tally.rollout_tokens += rollouts.tokens
        batches: list[Batch] = []
        if self._method.judge is not None:
            batches = self._credit(rollouts, advantages, self._method.judge)
        batch = _join([_batch(rollouts, advantages), *batches])
        self.network.ascend(batch.x, batch.actions, batch.advantages, rate=self._rate)
        tally.steps += 1
        tally.groups += self._method.groups
        tally.curve.append((tally.tokens, float(rollouts.success.mean())))

    def _credit(self, rollouts: Played, advantages: Floats, judge: Judge) -> list[Batch]:
        batches: list[Batch] = []
        for anchor in _anchors(rollouts):
            turns = np.flatnonzero(rollouts.valid[anchor, : rollouts.length[anchor] - 1])
            if not len(turns):
                continue
            self.tally.eligible += 1
            gains = self._gains(rollouts, anchor, turns)
            chosen = _choose(judge, gains, self._judge_rng)
            turn, length = int(turns[chosen]), int(rollouts.length[anchor])
            bonus, extra = self._bonus(rollouts, anchor, turn, float(gains[chosen]))
            batches += extra
            if self._method.pay == "spread":
                advantages[anchor, :length] += bonus / length
            else:
                advantages[anchor, turn] += bonus
        return batches

    def _gains(self, rollouts: Played, anchor: int, turns: Ints) -> Floats:
        states = [rollouts.states[turn].take(np.array([anchor])) for turn in range(int(rollouts.length[anchor]))]
        worlds = _stack(states)
        copies = worlds.take(np.repeat(np.arange(len(worlds)), GAIN_SAMPLES))
        played = play(self.network, copies, self._study, self._judge_rng, keep=False)
        values = played.success.reshape(len(worlds), GAIN_SAMPLES).mean(axis=1)
        return values[turns + 1] - values[turns]

    def _bonus(self, rollouts: Played, anchor: int, turn: int, gain: float) -> tuple[float, list[Batch]]:
        method = self._method
        if method.pay in ("constant", "spread"):
            return method.weight, []
        if method.pay == "exact":
            return method.weight * max(0.0, gain), []
        if method.pay == "audited":
            extra: list[Batch] = []
            if self._rng.random() < AUDIT_SHARE:
                delta, extra = self._verify(rollouts, anchor, turn)
                self._record.append(delta)
            return audited_bonus(self._record, weight=method.weight), extra
        delta, extra = self._verify(rollouts, anchor, turn)
        return method.weight * (delta if method.pay == "signed" else max(0.0, delta)), extra

    def _verify(self, rollouts: Played, anchor: int, turn: int) -> tuple[float, list[Batch]]:
        samples = self._method.samples
        rates: list[float] = []
        batches: list[Batch] = []
        for boundary in (turn, turn + 1):
            worlds = rollouts.states[boundary].take(np.full(samples, anchor))
            played = play(self.network, worlds, self._study, self._rng, keep=self._method.train_continuations)
            self.tally.continuation_tokens += played.tokens
            rates.append(float(played.success.mean()))
            if self._method.train_continuations and samples > 1:
                batches.append(_batch(played, _group_advantages(played, size=samples)))
        return rates[1] - rates[0], batches


def _warm(study: Study, seed: int, start: float) -> Network:
    """The common start: plain GRPO from a random network until it succeeds at the rate `start`."""
    rng = np.random.default_rng([seed, 0])
    network = Network(rng)
    while True:
        tasks = draw(study, 16, rng)
        rollouts = play(network, tasks.take(np.repeat(np.arange(16), GROUP_SIZE)), study, rng)
        if play(network, draw(study, 1000, rng), study, rng, keep=False).success.mean() >= start:
            network.reset_optimizer()
            return network
        batch = _batch(rollouts, _group_advantages(rollouts))
        network.ascend(batch.x, batch.actions, batch.advantages, rate=0.01)


def _group_advantages(played: Played, *, size: int = GROUP_SIZE, normalise: bool = False) -> Floats:
    """Shape (N, T): reward less the mean of its group of `size` neighbours."""
    rewards = played.success.reshape(-1, size).astype(float)
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    if normalise:
        deviation = rewards.std(axis=1, keepdims=True)
        centred = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0)
    return np.repeat(centred.reshape(-1, 1), played.actions.shape[1] or 1, axis=1)


def _anchors(rollouts: Played) -> list[int]:
    """Of every eligible group (1 to 3 successes of 8) the successful episode with the fewest turns."""
    found: list[int] = []
    for first in range(0, len(rollouts.success), GROUP_SIZE):
        won = [row for row in range(first, first + GROUP_SIZE) if rollouts.success[row]]
        if 1 <= len(won) <= 3 * GROUP_SIZE // 8:
            found.append(min(won, key=lambda row: (rollouts.length[row], row)))
    return found


def _choose(judge: Judge, gains: Floats, rng: np.random.Generator) -> int:
    if rng.random() < judge.right:
        return int(gains.argmax())
    others: Mapping[str, int] = {
        "random": int(rng.integers(len(gains))),
        "worst": int(gains.argmin()),
        "first": 0,
    }
    return others[judge.otherwise]


def _batch(played: Played, advantages: Floats) -> Batch:
    mask = np.arange(played.actions.shape[1]) < played.length[:, None]
    return Batch(x=played.x[mask], actions=played.actions[mask], advantages=advantages[mask])


def _join(batches: list[Batch]) -> Batch:
    return Batch(
        x=np.concatenate([batch.x for batch in batches]),
        actions=np.concatenate([batch.actions for batch in batches]),
        advantages=np.concatenate([batch.advantages for batch in batches]),
    )


def _stack(worlds: list[Worlds]) -> Worlds:
    names = Worlds.__dataclass_fields__
    return Worlds(**{name: np.concatenate([getattr(world, name) for world in worlds]) for name in names})
