"""The gateway's client for asyncio: the methods of ProverClient, awaited."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx

from prover.analysis import Options
from prover.client import calls
from prover.client.calls import Call
from prover.client.documents import (
    Advantages,
    Analysis,
    Continuations,
    Event,
    Json,
    JudgeRecord,
    Page,
    PlayedOutcome,
    Policy,
    Requests,
    Taken,
)
from prover.client.errors import check
from prover.trajectory import Group


class AsyncProverClient:
    """A gateway at `url`, else at PROVER_URL, else on this machine's port 8000.

    Belongs to the event loop that first uses it; use it in an `async with` block. What it raises and when it tries
    again: as ProverClient.
    """

    def __init__(self, url: str | None = None, *, timeout_s: float = 30.0, retries: int = 5) -> None:
        self.url = calls.address(url)
        self._timeout_s = timeout_s
        self._retries = retries
        self._http = httpx.AsyncClient(base_url=self.url, timeout=timeout_s)

    async def __aenter__(self) -> "AsyncProverClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Lets the connections go."""
        await self._http.aclose()

    async def submit(
        self,
        group: Group | Mapping[str, Json],
        options: Options | Mapping[str, Json] | None = None,
        *,
        key: str | None = None,
    ) -> str:
        """Hands a group in and answers the analysis' id. The same `key` and body are the same analysis."""
        return str((await self._send(calls.submit(group, options, key))).json()["id"])

    async def submit_json(self, body: Mapping[str, Json], *, key: str | None = None) -> str:
        """The same for a whole body that is JSON already: `{"group": ..., "options": ...}`."""
        return str((await self._send(calls.submit_json(body, key))).json()["id"])

    async def get(self, analysis_id: str, wait_s: float = 0.0) -> Analysis:
        """The analysis as it stands; with `wait_s` (at most 60), once it has ended or that time is over."""
        return (await self._send(calls.get(analysis_id, wait_s))).json()

    async def wait(self, analysis_id: str, *, timeout_s: float | None = None) -> Analysis:
        """The analysis once it has ended. TimeoutError after `timeout_s`; None waits as long as it takes."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = calls.MAX_WAIT_S if deadline is None else deadline - time.monotonic()
            analysis = await self.get(analysis_id, wait_s=max(left_s, 0.0))
            if calls.ended(analysis):
                return analysis
            if left_s <= 0:
                raise TimeoutError(f"analysis {analysis_id}: still {analysis['status']} after {timeout_s} s")

    async def advantages(self, analysis_id: str) -> Advantages:
        """The advantages per trajectory, turn and token. ProblemError 409 before the analysis has ended."""
        return (await self._send(calls.advantages(analysis_id))).json()

    async def continuations(self, analysis_id: str) -> Continuations:
        """The continuations of an analysis with keep_continuations, once it has ended; ProblemError 409 before."""
        return (await self._send(calls.continuations(analysis_id))).json()

    async def requests(self, analysis_id: str, wait_s: float = 0.0) -> Requests:
        """Pull mode: what the caller is asked to play; with `wait_s` (at most 60), once there is something."""
        return (await self._send(calls.requests(analysis_id, wait_s))).json()

    async def outcomes(self, analysis_id: str, played: Sequence[PlayedOutcome]) -> Taken:
        """Pull mode: hands in what the caller has played, in any order; twice is harmless."""
        return (await self._send(calls.outcomes(analysis_id, played))).json()

    async def events(self, analysis_id: str, *, after: str | None = None) -> AsyncIterator[Event]:
        """Every event from the first one on, or after the id `after`, as it happens, until the analysis has ended.

        A connection that breaks is made again where it was.
        """
        pauses = calls.pauses(self._retries)
        while True:
            try:
                async for event in self._stream(calls.events(analysis_id, after)):
                    after, pauses = event.id, calls.pauses(self._retries)
                    yield event
                    if calls.is_end(event):
                        return
                return
            except calls.Interrupted as broken:
                await asyncio.sleep(calls.next_pause_s(pauses, broken))

    async def cancel(self, analysis_id: str) -> None:
        """Stops an analysis. Cancelling twice is fine; ProblemError 409 where it has ended."""
        await self._send(calls.cancel(analysis_id))

    async def delete(self, analysis_id: str) -> None:
        """Removes an analysis and everything that belongs to it."""
        await self._send(calls.delete(analysis_id))

    async def list(self, *, limit: int = 50, before: str | None = None) -> Page:
        """Analyses, newest first; `before` is the `next` of the page before."""
        return (await self._send(calls.recent(limit, before))).json()

    async def policy(self, name: str | None = None) -> Policy:
        """The model and version that continuations run on now."""
        return (await self._send(calls.policy(name))).json()

    async def judge_record(self, judge: str) -> JudgeRecord:
        """What audits have said of a judge, and what mode `audited` pays it now. ProblemError 404: no such judge."""
        return (await self._send(calls.judge_record(judge))).json()

    async def _send(self, call: Call) -> httpx.Response:
        pauses = calls.pauses(self._retries)
        while True:
            try:
                response = await self._http.request(call.method, call.path, **self._arguments(call))
                if not calls.try_again(response):
                    check(response)
                    return response
                broken = calls.Interrupted(response=response)
            except httpx.TransportError as error:
                broken = calls.Interrupted(url=self.url, error=error)
            await asyncio.sleep(calls.next_pause_s(pauses, broken))

    async def _stream(self, call: Call) -> AsyncIterator[Event]:
        """One connection's events. Interrupted where it closed before the analysis had ended."""
        lines = calls.EventLines()
        try:
            async with self._http.stream(call.method, call.path, **self._arguments(call)) as response:
                if response.status_code == 204:
                    return
                if not response.is_success:
                    await response.aread()
                    if calls.try_again(response):
                        raise calls.Interrupted(response=response)
                    check(response)
                async for line in response.aiter_lines():
                    event = lines.feed(line)
                    if event is not None:
                        yield event
        except httpx.TransportError as error:
            raise calls.Interrupted(url=self.url, error=error) from error
        raise calls.Interrupted(url=self.url)

    def _arguments(self, call: Call) -> dict[str, Any]:
        timeout = httpx.Timeout(self._timeout_s + call.extra_s, connect=5.0)
        return {"params": call.params, "headers": call.headers, "content": call.content, "timeout": timeout}
