"""Versions that an engine serves side by side, as LoRA adapters under their names: old groups stay verifiable while the
training goes on, for as long as their adapter is loaded. The engine is another company's API, over real HTTP."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chain_world import OPTIONS, TASK, door_text, mixed_group
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from verifier_house import House, batch, open_house

from prover.environments import make
from prover.lifecycle import Status
from prover.policies import PolicyClient, PolicyError
from prover.queues import CONTINUE_TASK
from services.verifier.continuations import Continuations
from services.verifier.endings import Endings
from services.verifier.metrics import Metrics
from services.verifier.player import World
from tests.unit.engine.serving import serving


class Adapters:
    """The part of vLLM that the policy client speaks, with adapters loaded under the names of versions.

    `chances` has how often each opens the right door, the one loaded last at the end. `unload_after` completions the
    first of them is unloaded.
    """

    def __init__(self) -> None:
        self.chances = {"v3": 1.0, "v4": 0.0}
        self.asked: list[str] = []
        self.unload_after: int | None = None

    def app(self) -> FastAPI:
        app = FastAPI()
        app.get("/v1/models")(self.models)
        app.post("/v1/load_lora_adapter")(self.models)
        app.post("/tokenize")(self.tokenize)
        app.post("/v1/completions")(self.completions)
        return app

    async def models(self) -> dict[str, Any]:
        adapters = [{"id": name, "parent": "base", "max_model_len": None} for name in self.chances]
        return {"data": [{"id": "base", "parent": None, "max_model_len": 100_000}, *adapters]}

    async def tokenize(self, request: Request) -> dict[str, Any]:
        return {"tokens": [ord(letter) for letter in (await request.json())["prompt"]]}

    async def completions(self, request: Request) -> JSONResponse:
        asked = await request.json()
        name = asked["model"]
        if len(self.asked) == self.unload_after:
            self.chances.pop("v3", None)
        if name not in self.chances:
            return JSONResponse({"error": {"message": f"The model `{name}` does not exist."}}, status_code=404)
        self.asked.append(name)
        context = "".join(map(chr, asked["prompt"]))
        text = door_text(context, seed=TASK.seed, chance=self.chances[name], draw=0.5)
        tokens = {"token_ids": [ord(letter) for letter in text], "logprobs": {"token_logprobs": [-0.1] * len(text)}}
        choice = {"text": text[:-1], "finish_reason": "stop", **tokens}
        return JSONResponse({"model": name, "choices": [choice]})


@pytest.fixture
def engine() -> Adapters:
    return Adapters()


@pytest.fixture
async def house(redis_url: str, tmp_path: Path, engine: Adapters) -> AsyncIterator[House]:
    """One whose workers ask that engine."""
    with serving(engine.app()) as url:
        async with open_house(redis_url, tmp_path) as opened:
            client, metrics = PolicyClient(url, timeout_s=20.0), Metrics()
            world = World(policies={"chain": client}, make_environment=make)
            endings = Endings(opened.store, metrics)
            yield replace(opened, continuations=Continuations(opened.store, world, opened.outbox, endings, metrics))
            await client.aclose()


async def test_a_group_is_verified_by_the_version_that_made_it_after_the_next_was_published(
    house: House, engine: Adapters
) -> None:
    await house.begin(await mixed_group(version="v3"))
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.DONE, analysis.error
    assert analysis.verification is not None
    assert set(engine.asked) == {"v3"}
    assert (analysis.verification.before.successes, analysis.verification.after.successes) == (4, 4)


async def test_groups_of_both_versions_are_verified_side_by_side(house: House, engine: Adapters) -> None:
    await house.begin(await mixed_group(version="v3"), analysis_id="old")
    await house.begin(await mixed_group(version="v4"), analysis_id="new")
    await house.run()
    for analysis_id, successes in (("old", 4), ("new", 0)):
        analysis = await house.get(analysis_id)
        assert analysis.status is Status.DONE, analysis.error
        assert analysis.verification is not None
        assert analysis.verification.before.successes == successes
    assert set(engine.asked) == {"v3", "v4"}


async def test_a_version_that_is_not_loaded_any_more_is_stale_and_both_are_named(
    house: House, engine: Adapters
) -> None:
    del engine.chances["v3"]
    await house.begin(await mixed_group(version="v3"))
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.STALE
    assert "'v3'" in (analysis.error or "")
    assert "'v4'" in (analysis.error or "")
    assert not engine.asked


async def test_a_lag_that_the_caller_allows_is_played_by_the_version_that_is_there(
    house: House, engine: Adapters
) -> None:
    del engine.chances["v3"]
    await house.begin(await mixed_group(version="v3"), replace(OPTIONS, allowed_lag=1))
    await house.run()
    assert (await house.get()).status is Status.DONE
    assert set(engine.asked) == {"v4"}


async def test_a_version_that_is_unloaded_in_mid_batch_is_stale_at_the_next_attempt(
    house: House, engine: Adapters
) -> None:
    engine.unload_after = 3
    await house.begin(await mixed_group(version="v3"))
    message = house.outbox.take(CONTINUE_TASK)[0]
    with pytest.raises(PolicyError, match="v3"):
        await house.continuations.play_batch(batch(message))
    await house.continuations.play_batch(batch(message))
    assert (await house.get()).status is Status.STALE
    assert set(engine.asked) == {"v3"}
