"""One supervised child process: started, watched, restarted with back-off, stopped politely and then for good."""

import asyncio
import contextlib
import ctypes
import os
import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_MAX_RESTARTS = 6
_RESTART_WINDOW_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run. Output goes to `log`."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Path


class KeepsDying(Exception):
    """A process died more often than a restart can be worth. Names its log."""


class Supervised:
    """Keeps one command running until `stop`."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False
        self._deaths: deque[float] = deque(maxlen=_MAX_RESTARTS)

    @property
    def pid(self) -> int | None:
        """Of the present incarnation."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Starts the command and watches it."""
        await self._spawn()
        self._watching = asyncio.create_task(self._watch(), name=f"watch {self.command.name}")

    async def wait_failed(self) -> None:
        """Returns only by raising KeepsDying, or when the process has been stopped."""
        if self._watching is not None:
            await asyncio.shield(self._watching)

    async def stop(self, timeout_s: float = 15.0) -> None:
        """SIGTERM, and SIGKILL after `timeout_s`."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            await self._end_watch()
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), timeout_s)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await self._end_watch()

    async def _end_watch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _spawn(self) -> None:
        with self.command.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command.arguments,
                env={**os.environ, **self.command.environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # ctrl-C reaches the supervisor alone, which stops the others in order
                preexec_fn=_die_with_parent,
            )

    async def _watch(self) -> None:
        while not self._stopping:
            assert self._process is not None
            code = await self._process.wait()
            if self._stopping:
                return
            now = time.monotonic()
            self._deaths.append(now)
            if len(self._deaths) == _MAX_RESTARTS and now - self._deaths[0] < _RESTART_WINDOW_S:
                raise KeepsDying(f"{self.command.name} ended {_MAX_RESTARTS} times, last with {code}: {self._tail()}")
            await asyncio.sleep(min(0.2 * 2 ** len(self._deaths), 5.0))
            await self._spawn()

    def _tail(self) -> str:
        lines = self.command.log.read_text(errors="replace").splitlines()[-5:]
        return f"see {self.command.log}; its last lines:\n" + "\n".join(f"    {line}" for line in lines)


def _die_with_parent() -> None:
    """Runs in the child before exec: a supervisor that is killed leaves nothing behind (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
