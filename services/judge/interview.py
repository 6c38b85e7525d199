"""One conversation with a model about one group: what is said, what is counted, when it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from prover.credit.eligibility import anchor as anchor_of
from prover.trajectory import Group, JudgeCost, Proposal
from services.judge.answers import read_answer
from services.judge.chat import ChatClient, Reply, assistant_message, tool_results
from services.judge.fencing import count_tokens
from services.judge.previews import brief
from services.judge.protocols import Mode, read_calls, request_fields, system_prompt
from services.judge.question import ProposeLimits
from services.judge.tools import Call, Tools

_CALLS_A_REPLY = 4
_TOOL_SCHEMAS_TOKENS = 600
_LEFT_OUT = "[left out to save room; ask again if it is needed]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars for a million tokens."""

    input_usd: float
    output_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an interview ended: proposals, or why there are none."""

    proposals: tuple[Proposal, ...] = ()
    why_none: str = ""


class Interview:
    """Single use: `hold` is called until one way of asking is taken; counts go on over all of them.

    Making one reads every text of the group, which takes seconds for a long one; the rest is quick.
    """

    def __init__(
        self, group: Group, limits: ProposeLimits, *, context_tokens: int, reply_tokens: int, prices: Prices | None
    ) -> None:
        self._group, self._limits, self._prices = group, limits, prices
        self._anchor = anchor_of(group)
        self._context_tokens, self._reply_tokens = context_tokens, reply_tokens
        self._tools = Tools(group, page_tokens=max(250, min(2_000, context_tokens // 12)))
        self._brief = brief(group, self._anchor, max_tokens=self._room())
        self._messages: list[dict[str, object]] = []
        self._partial: list[Proposal] = []
        self._input_tokens = self._output_tokens = 0
        self._model_calls = self._tool_calls = self._invalid = 0
        self.last_fault = "it had not answered yet"
        self.answered = False

    @property
    def repairs(self) -> int:
        """How many invalid answers were sent back."""
        return min(self._invalid, self._limits.max_repairs)

    def cost(self, *, seconds: float) -> JudgeCost:
        """What was used so far."""
        return JudgeCost(
            input_tokens=self._input_tokens,
            output_tokens=self._output_tokens,
            tool_calls=self._tool_calls,
            invalid_answers=self._invalid,
            model_calls=self._model_calls,
            seconds=seconds,
            usd=self._usd(self._input_tokens, self._output_tokens),
        )

    async def hold(self, client: ChatClient, mode: Mode, fields: Mapping[str, object]) -> Ended:
        """Asks until there is a valid answer or a limit is reached. Raises ChatError, or Refused."""
        self._messages = self._opening(mode)
        while True:
            self._save_room()
            over = self._over_limits()
            if over:
                return self._end(over)
            final = self._is_final()
            reply = await client.complete(self._request(mode, fields, final=final))
            self._count(reply)
            ended = self._take(reply, mode, final=final)
            if ended is not None:
                return ended

    def _opening(self, mode: Mode) -> list[dict[str, object]]:
        system = system_prompt(mode, self._limits)
        return [{"role": "system", "content": system}, {"role": "user", "content": self._brief}]

    def _room(self) -> int:
        """Tokens of the brief, whatever the way of asking."""
        system = max(count_tokens(system_prompt(mode, self._limits)) for mode in Mode)
        fixed = system + self._reply_tokens + _TOOL_SCHEMAS_TOKENS
        return max(min((self._context_tokens - fixed) * 6 // 10, self._limits.max_tokens // 4), 300)

    def _request(self, mode: Mode, fields: Mapping[str, object], *, final: bool) -> dict[str, object]:
        messages = self._messages
        if final and self._model_calls:
            messages = [*messages, {"role": "user", "content": "This is your last reply. Give your answer now."}]
        extra = request_fields(mode, several=self._limits.max_proposals > 1, final=final)
        return {**fields, "messages": messages, "max_tokens": self._reply_tokens, **extra}

    def _take(self, reply: Reply, mode: Mode, *, final: bool) -> Ended | None:
        """Reads one reply; None where the conversation goes on."""
        calls = read_calls(reply)
        self._messages.append(assistant_message(reply))
        answer = next((call for call in calls if call.name == "answer"), None)
        if answer is not None:
            good, wrong = read_answer(answer.arguments, self._anchor, self._limits)
            if good and not wrong:
                return Ended(proposals=tuple(good))
            self._partial = good or self._partial
            return self._repair(calls, mode, "; ".join(wrong))
        if not calls:
            return self._repair((), mode, "the reply held no tool call and no JSON object")
        if final:
            return self._repair(calls, mode, "the answer was due, and another tool was called")
        results = [
            self._tools.run(call) if place < _CALLS_A_REPLY else f"not run: at most {_CALLS_A_REPLY} calls a reply"
            for place, call in enumerate(calls)
        ]
        self._tool_calls += min(len(calls), _CALLS_A_REPLY)
        self._respond(calls, mode, results)
        return None

    def _repair(self, calls: Sequence[Call], mode: Mode, fault: str) -> Ended | None:
        self._invalid += 1
        self.last_fault = f"the last answer was invalid: {fault}"
        if self._invalid > self._limits.max_repairs:
            return self._end(f"{self._invalid} invalid answers; {self.last_fault}")
        says = f"Your answer is not valid. {fault}. Correct it and answer again."
        self._respond(calls, mode, [says] * len(calls))
        return None

    def _respond(self, calls: Sequence[Call], mode: Mode, results: Sequence[str]) -> None:
        """As tool messages where the model made native calls, else as the user's next message."""
        if mode is Mode.TOOLS and calls and all(call.id for call in calls):
            self._messages += tool_results(calls, results)
        else:
            said = "\n\n".join(results) or f"Your reply is not valid: {self.last_fault}. Answer again."
            self._messages.append({"role": "user", "content": said})

    def _end(self, why: str) -> Ended:
        """Valid segments of an answer that was invalid in other parts are kept."""
        return Ended(proposals=tuple(self._partial)) if self._partial else Ended(why_none=why)

    def _count(self, reply: Reply) -> None:
        """The server's own counts, or ours where it gives none."""
        self.answered = True
        self._model_calls += 1
        estimate = count_tokens(reply.text) + sum(count_tokens(str(call.arguments)) for call in reply.calls)
        self._output_tokens += estimate if reply.completion_tokens is None else reply.completion_tokens
        self._input_tokens += self._waiting() if reply.prompt_tokens is None else reply.prompt_tokens

    def _waiting(self) -> int:
        """About how many tokens the next prompt has."""
        said = sum(count_tokens(f"{one.get('content')}{one.get('tool_calls', '')}") for one in self._messages)
        return said + _TOOL_SCHEMAS_TOKENS

    def _over_limits(self) -> str:
        limits = self._limits
        if self._model_calls >= limits.max_model_calls:
            return f"limits: {limits.max_model_calls} requests; {self.last_fault}"
        used, following = self._input_tokens + self._output_tokens, self._waiting() + self._reply_tokens
        if used + following > limits.max_tokens:
            return f"limits: {used} of {limits.max_tokens} tokens are used; {self.last_fault}"
        spent = self._usd(self._input_tokens + self._waiting(), self._output_tokens + self._reply_tokens)
        if limits.max_cost_usd is not None and spent > limits.max_cost_usd:
            return f"limits: the next request may take the cost over {limits.max_cost_usd} USD; {self.last_fault}"
        return ""

    def _is_final(self) -> bool:
        """The request after this one would not be allowed, or would not fit."""
        following = self._waiting() + self._reply_tokens
        left = self._limits.max_tokens - self._input_tokens - self._output_tokens
        return (
            self._model_calls + 1 == self._limits.max_model_calls
            or left < 5 * following // 2
            or following > self._context_tokens
            or self._usd_left() < 2.5 * self._usd(self._waiting(), self._reply_tokens)
        )

    def _usd_left(self) -> float:
        most = self._limits.max_cost_usd
        return inf if most is None else most - self._usd(self._input_tokens, self._output_tokens)

    def _save_room(self) -> None:
        """Drops the oldest results of tools where the conversation has outgrown the context."""
        for message in self._messages[2:]:
            if self._waiting() + self._reply_tokens <= self._context_tokens:
                return
            if message["role"] != "assistant" and len(str(message["content"])) > len(_LEFT_OUT):
                message["content"] = _LEFT_OUT

    def _usd(self, input_tokens: int, output_tokens: int) -> float:
        if self._prices is None:
            return 0.0
        return (input_tokens * self._prices.input_usd + output_tokens * self._prices.output_usd) / 1_000_000
