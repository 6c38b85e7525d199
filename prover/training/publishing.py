"""New weights into the engine, tried again where it fails: an engine that restarts is back in a moment."""

import asyncio
import logging
from collections.abc import Sequence

from prover.policies.publish import Published
from prover.rpc.clients import RpcError
from prover.training.connect import Learner

_log = logging.getLogger(__name__)

PAUSES_S = (1.0, 4.0, 15.0, 60.0)
"""Before the second, third, ... try. One try takes some seconds by itself where the engine is away."""


class NotPublished(Exception):
    """The learner's weights could not be brought into the engine. The version before serves; nothing is lost."""


async def publish(learner: Learner, *, timeout_s: float, pauses_s: Sequence[float] = PAUSES_S) -> Published:
    """The version that serves, proven. Raises NotPublished when every try failed."""
    failure: RpcError | None = None
    for number, pause_s in enumerate((0.0, *pauses_s), start=1):
        await asyncio.sleep(pause_s)
        try:
            return await learner.publish(timeout_s=timeout_s)
        except RpcError as error:
            failure = error
            _log.warning("publish failed, try %d of %d: %s", number, len(pauses_s) + 1, error)
    raise NotPublished(
        f"the new weights could not be published in {len(pauses_s) + 1} tries; the last: {failure}. The learner keeps "
        "them and the version before serves: mend what is named here, then go on with the same command"
    ) from failure
