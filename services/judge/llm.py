"""`llm`: a language model reads the group with two tools and names the segment. Code checks what it says.

ProVer (arXiv 2609.36178), Propose: the model gets the whole anchor and short previews of the failed runs, may search
and read the failed runs, and must answer with one failure mode and the shortest segment that avoids it. An invalid
answer goes back with the reason, at most `max_repairs` times.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

import httpx

from prover.trajectory import Group, JudgeCost, Judgement, Proposal
from services.judge.chat import ChatClient, ChatError, Refused
from services.judge.interview import Ended, Interview, Prices
from services.judge.protocols import Mode, prompt_version
from services.judge.question import ProposeLimits, check_contrast

PROTOCOLS = ("auto", "native", "text")
_TEXT_MODES = (Mode.JSON_SCHEMA, Mode.STRUCTURED_OUTPUTS, Mode.JSON_OBJECT, Mode.PLAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A chat server and what it can do.

    Attributes:
        url: up to and with "/v1".
        protocol: "native" tool calls, "text" (one JSON object a reply), or "auto": native unless the server refuses.
        context_tokens: how much the model can read and write at once.
        reply_tokens: most tokens of one reply.
        temperature: None leaves it to the server.
        prices: None where they are not known; costs are then 0.
    """

    url: str
    model: str
    api_key: str = field(default="", repr=False)
    protocol: str = "auto"
    context_tokens: int = 32_768
    reply_tokens: int = 1_024
    temperature: float | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url: was {self.url!r}; expected an address such as 'http://127.0.0.1:8001/v1'")
        if not self.model:
            raise ValueError("model: was empty; expected the name of a model that the server has")
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol: was {self.protocol!r}; expected one of {', '.join(PROTOCOLS)}")
        if self.context_tokens < 4_096:
            raise ValueError(f"context_tokens: was {self.context_tokens}; expected at least 4096")
        if not 64 <= self.reply_tokens <= self.context_tokens // 4:
            raise ValueError(f"reply_tokens: was {self.reply_tokens}; expected 64 to a quarter of context_tokens")

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The ways of asking, the most helpful first."""
        native = () if self.protocol == "text" else (Mode.TOOLS,)
        return native + (() if self.protocol == "native" else _TEXT_MODES)


class Llm:
    """The judge that asks a model. Remembers which ways of asking its server has refused."""

    name = "llm"

    def __init__(self, endpoint: Endpoint, *, executor: Executor | None = None) -> None:
        """`executor` indexes the group's texts; None is the event loop's own."""
        self._endpoint, self._executor = endpoint, executor
        self._modes = endpoint.modes
        # Of another model the audits say nothing: it gets a record of its own.
        self._version = f"{prompt_version()}@{endpoint.model}"
        # Made once: reading the certificates takes longer than a short request. Plain HTTP has no use for them, and
        # redirects (to HTTPS or anywhere) are not followed.
        self._tls = httpx.create_ssl_context() if endpoint.url.startswith("https://") else False

    async def propose(self, group: Group, limits: ProposeLimits) -> Judgement:
        """See `services.judge.question.Judge`. Raises ValueError for a cost limit without prices."""
        check_contrast(group)
        if limits.max_cost_usd is not None and self._endpoint.prices is None:
            raise ValueError(f"max_cost_usd: was {limits.max_cost_usd} without prices; expected prices for the model")
        started = monotonic()
        try:
            async with asyncio.timeout(limits.timeout_s):
                interview = await self._prepare(group, limits)
        except TimeoutError:
            why_none = f"limits: the group was not read within {limits.timeout_s:g} s"
            return self._judgement((), why_none, JudgeCost(seconds=monotonic() - started), 0)
        ended = await self._hold(interview, limits, left_s=limits.timeout_s - (monotonic() - started))
        cost = interview.cost(seconds=monotonic() - started)
        return self._judgement(ended.proposals, ended.why_none, cost, interview.repairs)

    async def _prepare(self, group: Group, limits: ProposeLimits) -> Interview:
        make = partial(
            Interview,
            group,
            limits,
            context_tokens=self._endpoint.context_tokens,
            reply_tokens=self._endpoint.reply_tokens,
            prices=self._endpoint.prices,
        )
        return await asyncio.get_running_loop().run_in_executor(self._executor, make)

    async def _hold(self, interview: Interview, limits: ProposeLimits, *, left_s: float) -> Ended:
        """The interview within its time, by the first way of asking that the server takes."""
        endpoint = self._endpoint
        fields: dict[str, object] = {"model": endpoint.model}
        if endpoint.temperature is not None:
            fields["temperature"] = endpoint.temperature
        refused: Refused | None = None
        try:
            http = httpx.AsyncClient(timeout=limits.timeout_s, verify=self._tls)
            async with asyncio.timeout(left_s), http:
                client = ChatClient(http, url=endpoint.url, api_key=endpoint.api_key)
                for mode in self._modes:
                    try:
                        ended = await interview.hold(client, mode, fields)
                    except Refused as error:
                        if interview.answered:
                            raise
                        refused = error
                        continue
                    self._modes = self._modes[self._modes.index(mode) :] if mode in self._modes else self._modes
                    return ended
        except TimeoutError:
            return Ended(why_none=f"limits: no valid answer within {limits.timeout_s:g} s; {interview.last_fault}")
        except ChatError as error:
            return Ended(why_none=f"the model did not answer: {error}")
        return Ended(why_none=f"the model cannot be asked: {refused}")

    def _judgement(self, proposals: Sequence[Proposal], why_none: str, cost: JudgeCost, repairs: int) -> Judgement:
        named = tuple(
            Proposal(
                segment=proposal.segment,
                failure_mode=proposal.failure_mode,
                reason=proposal.reason,
                judge=self.name,
                prompt_version=self._version,
                repairs=repairs,
            )
            for proposal in proposals
        )
        return Judgement(
            judge=self.name,
            prompt_version=self._version,
            proposals=named,
            no_proposal_reason="" if named else why_none,
            cost=cost,
        )
