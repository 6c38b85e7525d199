"""Playing a recorded trajectory again, up to a boundary, and checking that it is the same game.

Turns whose action is null left the environment alone: replay steps over them. What the environment says is held against
what was recorded, and its digest too where one was recorded: a continuation from any other state would be evidence
about something else.
"""

from prover.environments.environment import Environment
from prover.trajectory import Trajectory, Turn

_SHOWN = 2000
"""Characters of a text that an error shows."""


class NotRestorable(Exception):
    """A boundary did not come back as it was recorded. Names the turn and shows both sides."""


def replay(environment: Environment, trajectory: Trajectory, turn: int, *, fidelity: str) -> tuple[str, ...]:
    """Leaves `environment` in the state before turn `turn`.

    Answers what the environment said before each turn up to that one; where a turn left it alone, what it had said
    last. Raises NotRestorable; ValueError where the task itself is unknown.
    """
    if turn >= len(trajectory.turns):
        raise NotRestorable(
            f"turn {turn}: trajectory {trajectory.id!r} has {len(trajectory.turns)} turns; expected a turn of it"
        )
    said = [environment.reset(trajectory.task).text]
    spoke = True
    for index, recorded in enumerate(trajectory.turns[:turn]):
        _check(environment, index, recorded, said[-1] if spoke else None, fidelity)
        spoke = recorded.action is not None
        if recorded.action is None:
            said.append(said[-1])
            continue
        step = environment.step(recorded.action)
        if step.done:
            raise NotRestorable(
                f"turn {index}: the replayed game is over after {recorded.action!r}, saying {shown(step.observation)}; "
                f"the recorded one goes on with {shown(trajectory.turns[index + 1].observation)}"
            )
        said.append(step.observation)
    _check(environment, turn, trajectory.turns[turn], said[-1] if spoke else None, fidelity)
    return tuple(said)


def _check(environment: Environment, index: int, recorded: Turn, said: str | None, fidelity: str) -> None:
    """`said` is None where the environment was left alone: the text there is whoever recorded it's own."""
    if said is not None and not _agree(recorded.observation, said, fidelity):
        expected = "the same text" if fidelity == "exact" else "the replayed text within the recorded one"
        raise NotRestorable(
            f"turn {index}: observation: recorded {shown(recorded.observation)}, replayed {shown(said)}; "
            f"expected {expected}"
        )
    if recorded.digest is not None and recorded.digest != environment.digest():
        raise NotRestorable(
            f"turn {index}: digest: recorded {recorded.digest!r}, replayed {environment.digest()!r}, "
            f"at the observation {shown(recorded.observation)}; expected the same state"
        )


def _agree(recorded: str, said: str, fidelity: str) -> bool:
    if fidelity == "exact":
        return recorded == said
    if fidelity == "contains":
        return said in recorded
    raise ValueError(f"options.fidelity: was {fidelity!r}; expected 'exact' or 'contains'")


def shown(text: str) -> str:
    """A text in an error: quoted, and cut where it is long."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
