"""The judge: names the segment of a group's anchor that is worth verifying. Its numbers never become credit.

Every judge of the table answers the same question under the same limits (`services.judge.question`), and the
answer is either proposals (ranked, disjoint, each without a fault by `prover.credit.segments`) or the reason why there
are none.

    judge = make("contrast", JudgeOptions())
    judgement = await judge.propose(group, ProposeLimits())
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

from services.judge.contrast import Contrast
from services.judge.controls import BoundaryValues, Oracle, Uniform
from services.judge.llm import Endpoint, Llm
from services.judge.mistakes import WithMistakes
from services.judge.question import Judge, ProposeLimits

__all__ = ["JUDGES", "Judge", "JudgeOptions", "ProposeLimits", "make"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """What a judge may need to be made.

    Attributes:
        endpoint: the chat server of `llm`.
        values: the truth, for `oracle` alone.
        executor: what does the long computations, so that the event loop goes on; None is the loop's own.
    """

    endpoint: Endpoint | None = None
    values: BoundaryValues | None = None
    executor: Executor | None = None


def _contrast(options: JudgeOptions) -> Judge:
    return Contrast(executor=options.executor)


def _llm(options: JudgeOptions) -> Judge:
    if options.endpoint is None:
        raise ValueError("judge: 'llm' needs the address and the model of a chat server")
    return Llm(options.endpoint, executor=options.executor)


def _random(options: JudgeOptions) -> Judge:
    return Uniform()


def _oracle(options: JudgeOptions) -> Judge:
    if options.values is None:
        raise ValueError("judge: 'oracle' needs the true values of boundaries; it is for experiments alone")
    return Oracle(values=options.values)


JUDGES: Mapping[str, Callable[[JudgeOptions], Judge]] = {
    "contrast": _contrast,
    "llm": _llm,
    "random": _random,
    "oracle": _oracle,
}


def make(name: str, options: JudgeOptions) -> Judge:
    """The judge of that name. ValueError lists the known ones."""
    if name not in JUDGES:
        raise ValueError(f"judge: was {name!r}; expected one of {', '.join(sorted(JUDGES))}")
    return WithMistakes(judge=JUDGES[name](options), executor=options.executor)
