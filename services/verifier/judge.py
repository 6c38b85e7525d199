"""The judge service, as the coordinator sees it."""

from prover.rpc.clients import JudgeClient, RpcError
from prover.trajectory import Group, Judgement
from services.verifier.verifier import JudgeRefused


class RemoteJudge:
    """A `Judge` over gRPC. The deadline is for the whole answer, tools and repairs included."""

    def __init__(self, client: JudgeClient, *, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s

    async def propose(self, group: Group, *, judge: str, seed: int, proposals: int, mistakes: int) -> Judgement:
        """Raises JudgeRefused where the judge calls the request wrong; RpcError where it does not answer."""
        try:
            return await self._client.propose(
                group,
                judge=judge,
                seed=seed,
                max_proposals=proposals,
                max_mistakes=mistakes,
                timeout_s=self._timeout_s,
            )
        except RpcError as error:
            if error.invalid:
                raise JudgeRefused(str(error)) from error
            raise
