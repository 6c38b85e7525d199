"""The closed training loop: a library that `prover train` runs. It starts nothing by itself.

experiment   what is tried: a TOML file
loop         a run, step by step; start reading there
curriculum   which tasks come next
sampling     groups from the rollout service, several at once
crediting    groups in, credited trajectories out, through the gateway or by the group's own outcomes
publishing   new weights into the engine, tried again
evaluation   success on held-out tasks, with intervals
records      what a step leaves behind
runs         the folder of a run; resuming
learner_experiment  the learner's own knobs
learner      what the learner tells of itself
connect      the services, on this machine or elsewhere
display, tensorboard, metrics, report: those who watch
"""

from prover.training.learner import LearnerState, StepMetrics

__all__ = ["LearnerState", "StepMetrics"]
