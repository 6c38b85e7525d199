"""What a caller gets of continuations: what it is asked to play, and what was played here and kept."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from prover.lifecycle import Status
from prover.trajectory import Trajectory
from services.gateway.kept import KeptBoundary
from services.gateway.pull import Request


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class RequestOut(_Answer):
    """Continuations that are wanted: `samples` of them, from the state before turn `before_turn`."""

    request_id: str
    trajectory_id: str
    before_turn: int
    samples: int


class RequestsOut(_Answer):
    """`GET /v1/analyses/{id}/requests`: those that still lack outcomes."""

    status: str
    requests: list[RequestOut]


class TakenOut(_Answer):
    """`POST /v1/analyses/{id}/outcomes`. `duplicates` changed nothing: they stood there already, or came too late."""

    accepted: int
    duplicates: int


class KeptOut(_Answer):
    """One continuation. Its first turn is the one after the boundary; its first context is the whole one."""

    sample: int
    advantage: float = Field(description="Of each of its sampled tokens: its reward less its siblings' mean.")
    trajectory: Trajectory


class KeptBoundaryOut(_Answer):
    """The continuations of the state before turn `before_turn`: siblings, a group of their own."""

    side: str
    trajectory_id: str
    before_turn: int
    continuations: list[KeptOut]


class ContinuationsOut(_Answer):
    """`GET /v1/analyses/{id}/continuations`."""

    boundaries: list[KeptBoundaryOut]


def requests_out(status: Status, requests: Sequence[Request]) -> RequestsOut:
    """What the caller is asked for."""
    return RequestsOut(
        status=status.value,
        requests=[
            RequestOut(
                request_id=request.request_id,
                trajectory_id=request.boundary.trajectory_id,
                before_turn=request.boundary.turn,
                samples=request.samples,
            )
            for request in requests
        ],
    )


def continuations_out(boundaries: Sequence[KeptBoundary]) -> ContinuationsOut:
    """What was kept."""
    return ContinuationsOut(
        boundaries=[
            KeptBoundaryOut(
                side=kept.side,
                trajectory_id=kept.boundary.trajectory_id,
                before_turn=kept.boundary.turn,
                continuations=[
                    KeptOut(sample=sample, advantage=advantage, trajectory=trajectory)
                    for sample, trajectory, advantage in zip(
                        kept.samples, kept.trajectories, kept.advantages, strict=True
                    )
                ],
            )
            for kept in boundaries
        ]
    )
