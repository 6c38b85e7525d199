"""Continuous batching, prefix reuse and changes of weights, stepped by hand."""

from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
import torch

from services.engine.batch import Batch, Job, Sample, SampleRequest
from services.engine.weights import Weights
from tests.unit.engine.builders import STOP, batch, weights

PROMPT = tuple(1 + (7 * index + index // 3) % 11 for index in range(60))


def ask(prompt: tuple[int, ...] = PROMPT, *, max_tokens: int = 8, seed: int | None = 5) -> SampleRequest:
    """A request that nothing but its length stops."""
    return SampleRequest(prompt_ids=prompt, max_tokens=max_tokens, seed=seed)


def put(into: Batch, request: SampleRequest) -> Future[Sample]:
    """Hands a request in."""
    future: Future[Sample] = Future()
    into.waiting.append(Job(request=request, future=future, prompt=np.array(request.prompt_ids, dtype=np.int32)))
    return future


def finish(of: Batch) -> None:
    """Steps until nothing is in flight."""
    for _ in range(1000):
        if of.idle:
            return
        of.step()
    raise AssertionError("the batch does not come to an end")


def alone(of: Weights, request: SampleRequest) -> Sample:
    """What a fresh batch answers."""
    fresh = batch(of)
    future = put(fresh, request)
    finish(fresh)
    return future.result(0)


def same(one: Sample, other: Sample) -> None:
    """Equal tokens, and log-probabilities up to the rounding of another batch size."""
    assert one.token_ids == other.token_ids
    assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_logprobs_are_those_of_the_model(tmp_path: Path) -> None:
    of = weights(tmp_path)
    answer = alone(of, ask())
    with torch.inference_mode():
        logits = of.model(torch.tensor([PROMPT + answer.token_ids])).logits[0, len(PROMPT) - 1 : -1]
    expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(answer.token_ids)[:, None])[:, 0]
    assert answer.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


def test_sequences_that_come_and_go_do_not_disturb_each_other(tmp_path: Path) -> None:
    of = weights(tmp_path)
    requests = [ask(PROMPT[: 5 + 9 * index], max_tokens=3 + index, seed=index) for index in range(6)]
    crowded = batch(of, max_batch=3, max_step_tokens=16)
    futures: list[Future[Sample]] = []
    for request in requests:
        futures.append(put(crowded, request))
        crowded.step()
    finish(crowded)
    for request, future in zip(requests, futures, strict=True):
        same(future.result(0), alone(of, request))


def test_the_same_seed_repeats_and_another_does_not(tmp_path: Path) -> None:
    of = weights(tmp_path)
    first, again, other = (alone(of, ask(max_tokens=20, seed=seed)) for seed in (1, 1, 2))
    assert first.token_ids == again.token_ids != other.token_ids


def test_a_stop_token_ends_the_answer_and_is_part_of_it(tmp_path: Path) -> None:
    of = weights(tmp_path)
    free = alone(of, ask(max_tokens=20))
    stop = free.token_ids[3]
    answer = alone(of, SampleRequest(prompt_ids=PROMPT, max_tokens=20, seed=5, stop_ids=frozenset({stop})))
    assert answer.token_ids == free.token_ids[: free.token_ids.index(stop) + 1]
    assert (answer.finish_reason, free.finish_reason) == ("stop", "length")


def test_a_prompt_that_extends_an_answer_computes_only_what_is_new(tmp_path: Path) -> None:
    of = weights(tmp_path)
    warm = batch(of)
    future = put(warm, ask())
    finish(warm)
    answer = future.result(0)
    before = warm.counters.computed_tokens
    longer = ask(PROMPT + answer.token_ids + (3, 4, STOP), max_tokens=1)
    following = put(warm, longer)
    finish(warm)
    # The last sampled token was never read by the model, so it counts as new.
    assert warm.counters.computed_tokens - before == 4
    assert following.result(0).reused == len(PROMPT) + len(answer.token_ids) - 1
    same(following.result(0), alone(of, longer))


def test_samples_of_one_prompt_compute_it_once(tmp_path: Path) -> None:
    of = weights(tmp_path)
    together = batch(of, max_step_tokens=32)
    futures = [put(together, ask(max_tokens=2, seed=seed)) for seed in range(8)]
    finish(together)
    # The first computes the prompt, each of the others its last token; then each reads one sampled token.
    assert together.counters.computed_tokens == len(PROMPT) + 7 + 8
    for seed, future in enumerate(futures):
        same(future.result(0), alone(of, ask(max_tokens=2, seed=seed)))


def test_a_boundary_in_the_middle_of_a_kept_sequence_is_reused(tmp_path: Path) -> None:
    of = weights(tmp_path)
    warm = batch(of)
    put(warm, ask())
    finish(warm)
    fork = ask((*PROMPT[:40], 2, 2), max_tokens=4)
    future = put(warm, fork)
    finish(warm)
    assert future.result(0).reused == 40
    same(future.result(0), alone(of, fork))


def test_the_least_recently_used_sequences_make_room(tmp_path: Path) -> None:
    of = weights(tmp_path)
    one = batch(of)
    put(one, ask())
    finish(one)
    size = one.prefixes.num_bytes
    small = batch(of, cache_bytes=2 * size)
    prompts = [(first, *PROMPT) for first in (1, 2, 3)]
    for prompt in prompts:
        put(small, ask(prompt))
        finish(small)
    assert small.prefixes.num_bytes <= 2 * size
    kept = [small.prefixes.longest(np.array(prompt, dtype=np.int32))[1] for prompt in prompts]
    assert kept[0] == 0
    assert min(kept[1:]) >= len(PROMPT)


def test_nothing_of_older_weights_leaks(tmp_path: Path) -> None:
    old, new = weights(tmp_path / "old", seed=1), weights(tmp_path / "new", seed=2, version="v1")
    used = batch(old)
    put(used, ask())
    finish(used)
    used.replace_weights(new)
    future = put(used, ask())
    finish(used)
    assert future.result(0).version == "v1"
    assert future.result(0).reused == 0
    same(future.result(0), alone(new, ask()))
    assert future.result(0).token_ids != alone(old, ask()).token_ids


def test_an_answer_under_way_starts_again_with_the_new_weights(tmp_path: Path) -> None:
    old, new = weights(tmp_path / "old", seed=1), weights(tmp_path / "new", seed=2, version="v1")
    used = batch(old)
    futures = [put(used, ask(seed=seed)) for seed in range(3)]
    for _ in range(4):
        used.step()
    used.replace_weights(new)
    finish(used)
    for seed, future in enumerate(futures):
        assert future.result(0).version == "v1"
        same(future.result(0), alone(new, ask(seed=seed)))


def test_a_cancelled_request_leaves_the_batch(tmp_path: Path) -> None:
    of = weights(tmp_path)
    used = batch(of, max_batch=1)
    running, waiting, last = (put(used, ask(max_tokens=100, seed=seed)) for seed in range(3))
    used.step()
    running.cancel()
    waiting.cancel()
    finish(used)
    assert used.counters.finished["cancelled"] == 2
    assert len(last.result(0).token_ids) == 100


def test_an_abort_answers_with_what_there_is(tmp_path: Path) -> None:
    used = batch(weights(tmp_path), max_batch=1)
    running, waiting = put(used, ask()), put(used, ask())
    used.step()
    used.step()
    used.abort()
    assert used.idle
    assert [len(future.result(0).token_ids) for future in (running, waiting)] == [2, 0]
    assert running.result(0).finish_reason == "abort"
