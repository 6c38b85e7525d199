"""The simulated autoscaler: the numbers are the manifest's, and no policy loses a task."""

from pathlib import Path

import pytest

from bench.autoscaling import Load, Policy, Simulation

MANIFEST = Path(__file__).parents[3] / "deploy" / "kubernetes" / "autoscaling" / "verifier.yaml"
LOAD = Load(steps=6, tasks_a_step=64, evaluation_every=3)


def test_the_simulated_policy_is_the_one_that_is_deployed() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    spec = next(iter(yaml.safe_load_all(MANIFEST.read_text())))["spec"]
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    percent, pods = behavior["scaleUp"]["policies"]
    down = behavior["scaleDown"]["policies"][0]
    deployed = Policy(
        target=int(spec["triggers"][0]["metadata"]["threshold"]),
        least=spec["minReplicaCount"],
        most=spec["maxReplicaCount"],
        poll_s=spec["pollingInterval"],
        cooldown_s=spec["cooldownPeriod"],
        stabilization_s=behavior["scaleDown"]["stabilizationWindowSeconds"],
        down_percent=down["value"],
        down_period_s=down["periodSeconds"],
        up_percent=percent["value"],
        up_pods=pods["value"],
        up_period_s=percent["periodSeconds"],
    )
    assert deployed == Policy()


def test_workers_that_end_what_they_have_begun_play_every_task_once() -> None:
    result = Simulation(Policy(), LOAD, seed=1).run()
    assert (result.finished, result.killed) == (LOAD.steps * LOAD.tasks_a_step, 0)


def test_killed_work_is_played_again_and_nothing_is_lost() -> None:
    hasty = Policy(counts_running=False, stabilization_s=0, grace_s=5, down_percent=100)
    result = Simulation(hasty, LOAD, seed=1).run()
    assert result.killed > 0 and result.redone_s > 0
    assert result.finished == LOAD.steps * LOAD.tasks_a_step


def test_idle_workers_cost_nothing_where_a_fixed_number_goes_on_costing() -> None:
    pause = Load(steps=2, tasks_a_step=16, evaluation_every=1, evaluation_s=7200)
    scaled = Simulation(Policy(), pause, seed=2).run()
    fixed = Simulation(Policy(least=8, most=8), pause, seed=2).run()
    assert scaled.worker_s < 0.5 * fixed.worker_s


def test_a_first_worker_is_started_from_none() -> None:
    result = Simulation(Policy(), Load(steps=1, tasks_a_step=4), seed=3).run()
    assert min(result.waits_s) >= Policy().start_s
