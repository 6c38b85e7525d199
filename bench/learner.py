"""One optimizer step of ours beside one of TRL's GRPOTrainer: the same model, trajectories, tokens and advantages.

Both sides run in processes of their own, both alive at once, and take steps in turn, so that whatever else the machine
does falls on both. Times are processor time (one thread), so that waiting does not count. A step is everything from the
batch in memory to the updated weights: TRL's generation is replaced by handing it the batch. TRL is given the whole
batch as one padded micro-batch, and one trajectory a micro-batch (no padding); the headline compares with the better.

Needs TRL: `make bench-learner` makes an environment of its own that has it.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.learner_answers import MARK
from bench.record import write_record

WEIGHTS = Path(__file__).parents[1] / "services" / "engine" / "weights" / "alfworld"
SIDES = ("ours", "trl whole batch", "trl one trajectory")


class Side:
    """A process that takes one step each time it is told to."""

    def __init__(self, name: str, weights: Path, output: Path, *, trajectories: int, seed: int) -> None:
        asked = [name, str(weights), str(output), str(trajectories), str(seed)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.learner_sides", *asked],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(output / "log").open("w"),
            text=True,
        )
        self._name, self._log = name, output / "log"
        self.ready = self._read()

    def step(self) -> Mapping[str, float]:
        """Seconds of processor time, and MiB of memory above what stood there before the first step."""
        stdin: Any = self._process.stdin
        stdin.write("step\n")
        stdin.flush()
        return self._read()

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> Mapping[str, float]:
        stdout: Any = self._process.stdout
        for line in stdout:
            if line.startswith(MARK):
                return json.loads(line.removeprefix(MARK))
        raise RuntimeError(f"{self._name}: ended before it was done:\n{self._log.read_text()[-2000:]}")


def measure(weights: Path, *, trajectories: int, steps: int, seed: int) -> list[dict[str, object]]:
    """One row a side and step; the first step of each, which makes the optimizer's state, is left out."""
    rows: list[dict[str, object]] = []
    with TemporaryDirectory() as folder, ExitStack() as ending:
        sides: dict[str, Side] = {}
        for number, name in enumerate(SIDES):
            output = Path(folder) / str(number)
            output.mkdir()
            sides[name] = Side(name, weights, output, trajectories=trajectories, seed=seed)
            ending.callback(sides[name].close)
        for step in range(steps + 1):
            for name, side in sides.items():
                measured = side.step()
                if step:
                    rows.append({"side": name, "seed": seed, "step": step, **side.ready, **measured})
    return rows


def headline(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Medians over steps, then the mean over seeds; TRL at its better setting of the two."""
    time = {name: _middle(rows, name, "seconds") for name in SIDES}
    memory = {name: _middle(rows, name, "memory_mib") for name in SIDES}
    best = min(SIDES[1:], key=lambda name: time[name])
    return {
        "ratio": round(time["ours"] / time[best], 3),
        "ratio_to_padded": round(time["ours"] / time["trl whole batch"], 3),
        "memory_ratio": round(memory["ours"] / memory[best], 3),
        "seconds": round(time["ours"], 3),
        "trl_seconds": round(time[best], 3),
    }


def _middle(rows: Sequence[Mapping[str, Any]], side: str, column: str) -> float:
    seeds = sorted({row["seed"] for row in rows})
    return statistics.mean(
        statistics.median(row[column] for row in rows if row["side"] == side and row["seed"] == seed) for seed in seeds
    )


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """For people."""
    lines = [f"{'':20}{'CPU s a step':>14}{'memory MiB':>12}{'tokens':>9}{'loss':>10}{'gradient':>10}"]
    for name in SIDES:
        first = next(row for row in rows if row["side"] == name)
        lines.append(
            f"{name:20}{_middle(rows, name, 'seconds'):14.3f}{_middle(rows, name, 'memory_mib'):12.0f}"
            f"{first['sampled_tokens']:9}{first['loss']:10.5f}{first['gradient_norm']:10.5f}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, records, shows; the headline last."""
    parser = argparse.ArgumentParser(prog="prover bench learner", description=__doc__)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--trajectories", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    asked = parser.parse_args(argv)
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    rows = [
        row
        for seed in seeds
        for row in measure(asked.weights, trajectories=asked.trajectories, steps=asked.steps, seed=seed)
    ]
    settings = {"trajectories": asked.trajectories, "steps": asked.steps, "seeds": list(seeds), "threads": 1}
    found = headline(rows)
    path = write_record("learner", settings=settings, headline=found, rows=rows)
    sys.stdout.write(f"{table(rows)}\n\n{path}\n")
    sys.stdout.writelines(f"{name} {value}\n" for name, value in found.items())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
