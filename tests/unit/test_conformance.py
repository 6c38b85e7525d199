"""The conformance suite finds what it looks for: environments broken on purpose, each in one way."""

import itertools

import pytest

from prover.environments.chain import ChainEnvironment
from prover.environments.conformance import CHECKS, Broken, Subject, check
from prover.environments.environment import Environment, Observation, Step
from prover.environments.replay import Replayed
from prover.trajectory import Task

_TASK = Task(environment="counter", task_id="start")


class Counter:
    """Counts upwards. `stop` ends it; nothing is ever solved."""

    deterministic = True
    can_snapshot = False

    def __init__(self) -> None:
        self.count: int | None = None

    def reset(self, task: Task) -> Observation:
        if task.task_id != "start":
            raise ValueError(f"task.task_id: was {task.task_id!r}; expected 'start'")
        self.count = 0
        return Observation(text="0")

    def step(self, action: str) -> Step:
        if self.count is None:
            raise RuntimeError("before reset")
        if action not in ("one", "two"):
            return self._said("what?", valid=False)
        self.count += 1 if action == "one" else 2
        return self._said(str(self.count), valid=True)

    def admissible(self) -> list[str] | None:
        return ["one", "two"]

    def snapshot(self) -> bytes:
        raise NotImplementedError

    def restore(self, state: bytes) -> None:
        raise NotImplementedError

    def digest(self) -> str:
        return f"counter-{self.count}"

    def _said(self, text: str, *, valid: bool) -> Step:
        return Step(observation=text, reward=0.0, done=False, success=False, valid=valid)


class Forgetful(Counter):
    """Takes no notice of resets: one episode's count goes on in the next."""

    def reset(self, task: Task) -> Observation:
        count = self.count
        observation = super().reset(task)
        self.count = count or 0
        return observation


class Shared(Counter):
    """All instances count together."""

    together = itertools.count(1)

    def step(self, action: str) -> Step:
        step = super().step(action)
        return self._said(f"{step.observation} after {next(Shared.together)}", valid=step.valid)


class Fragile(Counter):
    """Raises on what it does not understand."""

    def step(self, action: str) -> Step:
        if self.count is not None and action not in ("one", "two"):
            raise KeyError(action)
        return super().step(action)


class Credulous(Counter):
    """Takes anything for valid."""

    def step(self, action: str) -> Step:
        return self._said(super().step(action).observation, valid=True)


class Boastful(Counter):
    """Says that it has snapshots, and has none."""

    can_snapshot = True


class Blurred(Counter):
    """Calls every process's states by names of its own."""

    def digest(self) -> str:
        return f"counter-{self.count}-{id(type(self))}"


class Hasty(Counter):
    """Counts running out of steps as a success, as a known trainer did."""

    def __init__(self, max_turns: int) -> None:
        super().__init__()
        self._left = max_turns

    def step(self, action: str) -> Step:
        self._left -= 1
        step = super().step(action)
        over = self._left == 0
        return Step(observation=step.observation, reward=float(over), done=over, success=over, valid=step.valid)


class Unsorted(Counter):
    """Lists its commands as they come."""

    def admissible(self) -> list[str] | None:
        return ["two", "one"]


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Forgetful, "reset_starts_over"),
        (Shared, "equal_actions_give_equal_answers"),
        (Shared, "no_state_is_shared"),
        (Credulous, "bad_actions_are_answered"),
        (Blurred, "snapshots_travel"),
        (Unsorted, "admissible_commands_are_accepted"),
    ],
)
def test_a_broken_promise_is_found(broken: type[Counter], promise: str) -> None:
    with pytest.raises(Broken):
        CHECKS[promise](Subject(make=broken, tasks=(_TASK,)))


def test_a_step_limit_that_counts_as_success_is_found() -> None:
    subject = Subject(make=Counter, tasks=(_TASK,), limited=Hasty)
    with pytest.raises(Broken, match="counted as a success"):
        CHECKS["a_step_limit_is_never_a_success"](subject)


@pytest.mark.parametrize("broken", [Fragile, Boastful])
def test_an_exception_is_a_finding_and_the_other_checks_still_run(broken: type[Counter]) -> None:
    findings = check(Subject(make=broken, tasks=(_TASK,)))
    assert [finding.check for finding in findings] == list(CHECKS)
    assert any(finding.problem for finding in findings)


def test_an_environment_without_snapshots_passes_with_restore_by_replay() -> None:
    findings = check(Subject(make=Counter, tasks=(_TASK,)))
    assert [finding for finding in findings if finding.problem] == []
    assert {finding.check for finding in findings if finding.skipped} == {
        "solutions_succeed",
        "steps_need_an_episode",
        "a_step_limit_is_never_a_success",
    }


def test_replay_refuses_an_environment_that_has_changed_since() -> None:
    environment = Replayed(Counter())
    environment.reset(_TASK)
    environment.step("two")
    tampered = environment.snapshot().replace(b'"two"', b'"one"')
    with pytest.raises(ValueError, match="led to state 'counter-1'; expected 'counter-2'"):
        Replayed(Counter()).restore(tampered)


def test_replay_takes_only_the_missing_steps_of_the_episode_it_is_in() -> None:
    steps: list[str] = []

    class Counted(Counter):
        def step(self, action: str) -> Step:
            steps.append(action)
            return super().step(action)

    environment = Replayed(Counted())
    environment.reset(_TASK)
    environment.step("one")
    early = environment.snapshot()
    environment.step("two")
    late = environment.snapshot()
    environment.restore(early)
    assert environment.digest() == "counter-1"
    steps.clear()
    environment.restore(late)
    assert (steps, environment.digest()) == (["two"], "counter-3")


def test_replay_refuses_an_environment_that_is_not_deterministic() -> None:
    class Random(Counter):
        deterministic = False

    with pytest.raises(ValueError, match="deterministic"):
        Replayed(Random())


def test_replay_adds_snapshots_to_an_environment_that_has_its_own() -> None:
    task = Task(environment="chain", task_id="6/")
    environment: Environment = Replayed(ChainEnvironment())
    environment.reset(task)
    environment.step("open red door")
    snapshot, digest = environment.snapshot(), environment.digest()
    other = Replayed(ChainEnvironment())
    other.restore(snapshot)
    assert other.digest() == digest
