"""One training run: rollouts, a judge, a credit rule, an optimizer step, until the tokens or the steps are used up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from bench.household.episodes import Played, finish, play
from bench.household.methods import Judge, Method
from bench.household.policy import Network
from bench.household.world import Floats, Ints, Study, Worlds, draw
from prover.credit.features import FEATURES_WINDOW, Features, shift_of, sorted_as, told_apart
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
        self._record: list[tuple[Features, float]] = []
        self.network = Network(np.random.default_rng(0), weights=_warm_weights(study, seed, start))
        self.tally = Tally()

    def train(self, budget: Budget) -> None:
        """Steps until the budget is used up."""
        if self._method.train_continuations and self._method.samples < 2:
            raise ValueError(
                f"samples: was {self._method.samples} with train_continuations; expected at least 2: "
                "one continuation has no sibling to be better than"
            )
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
        proposals = self._propose(rollouts, judge)
        self.tally.eligible += len(proposals)
        drawn = self._rng.random(len(proposals)) < self._method.audited_share
        audits = [index for index in range(len(proposals)) if drawn[index]]
        deltas, batches = self._verify(rollouts, [proposals[index][:2] for index in audits])
        verified = dict(zip(audits, deltas, strict=True))
        for index, (anchor, turn, gain) in enumerate(proposals):
            bonus = self._bonus(gain, verified.get(index), _features(rollouts, anchor, turn))
            if self._method.pay == "spread":
                length = int(rollouts.length[anchor])
                advantages[anchor, :length] += bonus / length
            else:
                advantages[anchor, turn] += bonus
        return batches

    def _propose(self, rollouts: Played, judge: Judge) -> list[tuple[int, int, float]]:
        """Anchor, turn and the turn's true gain (0 where nobody needs it), of every eligible group."""
        rng = self._judge_rng
        turns = {
            anchor: np.flatnonzero(rollouts.valid[anchor, : rollouts.length[anchor] - 1])
            for anchor in _anchors(rollouts)
        }
        turns = {anchor: found for anchor, found in turns.items() if len(found)}
        right = {anchor: bool(rng.random() < judge.right) for anchor in turns}
        looks = judge.otherwise == "worst" or self._method.pay == "exact"
        gains = self._gains(rollouts, {anchor: turns[anchor] for anchor in turns if looks or right[anchor]})
        proposals: list[tuple[int, int, float]] = []
        for anchor, found in turns.items():
            known = gains.get(anchor, np.zeros(len(found)))
            chosen = _choose(known, "best" if right[anchor] else judge.otherwise, rng)
            proposals.append((anchor, int(found[chosen]), float(known[chosen])))
        return proposals

    def _gains(self, rollouts: Played, turns: Mapping[int, Ints]) -> dict[int, Floats]:
        """V(after) - V(before) of those turns of those episodes, all played together."""
        if not turns:
            return {}
        lengths = {anchor: int(rollouts.length[anchor]) for anchor in turns}
        worlds = _stack(
            [rollouts.states[turn].take(np.array([anchor])) for anchor in turns for turn in range(lengths[anchor])]
        )
        copies = worlds.take(np.repeat(np.arange(len(worlds)), GAIN_SAMPLES))
        won = finish(self.network, copies, self._study, self._judge_rng).success
        values = won.reshape(len(worlds), GAIN_SAMPLES).mean(axis=1)
        starts = np.cumsum([0, *lengths.values()])
        return {
            anchor: values[start + found + 1] - values[start + found]
            for start, (anchor, found) in zip(starts, turns.items(), strict=False)
        }

    def _bonus(self, gain: float, delta: float | None, features: Features) -> float:
        """What a proposal earns: `gain` is true, `delta` what verification said of it (None: it was not verified)."""
        method = self._method
        if method.pay in ("constant", "spread"):
            return method.weight
        if method.pay == "exact":
            return method.weight * max(0.0, gain)
        if method.pay == "audited":
            told = told_apart(self._record[-FEATURES_WINDOW:]) if method.apart else {}
            self._record += [] if delta is None else [(features, delta)]
            deltas = [audited for _, audited in self._record]
            return audited_bonus(deltas, weight=method.weight, shift=shift_of(features, told))
        if delta is None:
            return 0.0
        return method.weight * (delta if method.pay == "signed" else max(0.0, delta))

    def _verify(self, rollouts: Played, turns: list[tuple[int, int]]) -> tuple[list[float], list[Batch]]:
        """Delta of each (anchor, turn), and the continuations to train on; all are played together."""
        samples = self._method.samples
        if not turns or not samples:
            return [0.0] * len(turns), []
        starts = _stack(
            [
                rollouts.states[boundary].take(np.full(samples, anchor))
                for anchor, turn in turns
                for boundary in (turn, turn + 1)
            ]
        )
        batches: list[Batch] = []
        if self._method.train_continuations:
            played = play(self.network, starts, self._study, self._rng)
            batches.append(_batch(played, _group_advantages(played, size=samples)))
        else:
            played = finish(self.network, starts, self._study, self._rng)
        self.tally.continuation_tokens += played.tokens
        rates = played.success.reshape(len(turns), 2, samples).mean(axis=2)
        return [float(delta) for delta in rates[:, 1] - rates[:, 0]], batches


@lru_cache(maxsize=4)
def _warm_weights(study: Study, seed: int, start: float) -> tuple[Floats, ...]:
    """The common start: plain GRPO from a random network until it succeeds at the rate `start`."""
    rng = np.random.default_rng([seed, 0])
    network = Network(rng)
    while finish(network, draw(study, 1000, rng), study, rng).success.mean() < start:
        tasks = draw(study, 16, rng)
        rollouts = play(network, tasks.take(np.repeat(np.arange(16), GROUP_SIZE)), study, rng)
        batch = _batch(rollouts, _group_advantages(rollouts))
        network.ascend(batch.x, batch.actions, batch.advantages, rate=0.01)
    return tuple(network.weights)


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


def _features(rollouts: Played, anchor: int, turn: int) -> Features:
    first = anchor - anchor % GROUP_SIZE
    return sorted_as(
        str(rollouts.states[0].kind[anchor]),
        success_rate=float(rollouts.success[first : first + GROUP_SIZE].mean()),
        first_turn=turn,
        turns=int(rollouts.length[anchor]),
    )


def _choose(gains: Floats, how: str, rng: np.random.Generator) -> int:
    choices: Mapping[str, int] = {
        "best": int(gains.argmax()),
        "random": int(rng.integers(len(gains))),
        "worst": int(gains.argmin()),
        "first": 0,
    }
    return choices[how]


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
