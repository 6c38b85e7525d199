"""Twelve steps on a fixed seed, from wherever the output folder stands; for tests that kill it in between."""

import sys
from pathlib import Path

import torch
from tiny_policy import random_trajectory

from prover.training.learner_experiment import LearnerExperiment
from services.learner.learner import Learner

STEPS = 12

if __name__ == "__main__":
    torch.set_num_threads(1)
    learner = Learner(Path(sys.argv[1]), Path(sys.argv[2]), LearnerExperiment(learning_rate=1e-2, warmup_steps=4))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while learner.state.step < STEPS:
        step = learner.state.step
        learner.step([random_trajectory(100 * step + place) for place in range(8)], after_step=step)
    learner.save_version()
