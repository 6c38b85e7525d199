"""The whole way of an analysis as processes: gateway, coordinator, workers, engine, judge."""

import asyncio
from pathlib import Path

import httpx
from verifier_processes import Processes

from prover.local.stack import free_port


class System(Processes):
    """The verifier's processes, a gateway in front of them, and the real judge where it is started."""

    gateway_port = 0

    def __init__(self, *, redis_url: str, folder: Path, judge_port: int, engine_port: int) -> None:
        super().__init__(redis_url=redis_url, folder=folder, judge_port=judge_port, engine_port=engine_port)
        self.judge_port = judge_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway_port}"

    def gateway(self) -> None:
        self.gateway_port = self.gateway_port or free_port()
        settings = {"PROVER_GATEWAY_PORT": str(self.gateway_port), "PROVER_GATEWAY_IDLE_S": "1"}
        self._start("gateway", ["-m", "services.gateway"], settings)

    def judge(self) -> None:
        """The real one."""
        self._start("judge", ["-m", "services.judge"], {"PROVER_JUDGE_PORT": str(self.judge_port)})

    async def ready(self) -> None:
        async with httpx.AsyncClient(base_url=self.url) as http:
            while True:
                try:
                    if (await http.get("/healthz")).status_code == 200:
                        return
                except httpx.TransportError:
                    assert self.running["gateway"].poll() is None, self.log("gateway")
                await asyncio.sleep(0.1)
