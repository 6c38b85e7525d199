"""The record of `make bench-frugal` as a table for people, a headline and a plot."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from rich.table import Table

Row = Mapping[str, object]


def headline_of(rows: Sequence[Row]) -> dict[str, float]:
    """The figures that the README and docs/verification.md rest on."""
    by_method = {row["method"]: row for row in rows if row["study"] == "unequal"}

    def score(method: str) -> float:
        return float(str(by_method[method]["score"]))

    difference, low, high = _numbers(by_method["audited"], "above_grpo")
    return {
        "grpo": score("grpo"),
        "fixed8": score("fixed8"),
        "frugal": score("frugal"),
        "audited": score("audited"),
        "unverified": score("unverified 5"),
        "difference": difference,
        "difference_low": low,
        "difference_high": high,
        "audited_wrong": score("audited wrong"),
        "unverified_wrong": score("unverified 5 wrong"),
        "figures_of_the_studies": sum(row["studied"] is not None for row in rows),
        "figures_reproduced": sum(row["reproduced"] is True for row in rows),
    }


def table_of(name: str, rows: Sequence[Row]) -> Table:
    """One study, a line a method."""
    table = Table(title=f"{name}: mean success over training, by method")
    for column in (
        "method",
        "score",
        "standard error",
        "above GRPO (95% interval)",
        "in our studies",
        "continuations",
        "eligible",
    ):
        table.add_column(column, justify="left" if column == "method" else "right")
    for row in rows:
        if row["study"] != name:
            continue
        difference = _numbers(row, "above_grpo")
        table.add_row(
            str(row["method"]),
            f"{row['score']:.3f}",
            f"{row['standard_error']}",
            "{:+.3f} ({:+.3f} to {:+.3f})".format(*difference) if difference else "",
            _studied(row),
            f"{row['continuation_share']:.1%} of tokens",
            f"{row['eligible_share']:.1%} of groups",
        )
    return table


def _studied(row: Row) -> str:
    studied = _numbers(row, "studied")
    if not studied:
        return ""
    value, half = studied
    shown = f"{value:.3f}" if row["method"] == "grpo" else f"{value:+.3f}"
    return f"{shown} ± {half:.3f}, {'the same' if row['reproduced'] else 'another'}"


def _numbers(row: Row, column: str) -> list[float]:
    """A column that holds several figures; empty where there are none."""
    return cast("list[float]", row[column] or [])


def plot(rows: Sequence[Row], path: Path) -> None:
    """Every score with its standard error."""
    from matplotlib.figure import Figure

    studies = list(dict.fromkeys(str(row["study"]) for row in rows))
    figure = Figure(figsize=(8, 0.3 * len(rows) + 1.5 * len(studies)), layout="constrained")
    for axes, study in zip(figure.subplots(len(studies), squeeze=False)[:, 0], studies, strict=True):
        shown = [row for row in rows if row["study"] == study][::-1]
        scores = [float(str(row["score"])) for row in shown]
        errors = [float(str(row["standard_error"] or 0.0)) for row in shown]
        axes.errorbar(scores, range(len(shown)), xerr=errors, fmt="o")
        axes.axvline(next(float(str(row["score"])) for row in shown if row["method"] == "grpo"), linestyle=":")
        axes.set_yticks(range(len(shown)), [str(row["method"]) for row in shown])
        axes.set_xlabel(f"{study}: mean success over training (bars: standard error over seeds; dotted: GRPO)")
    figure.savefig(path, dpi=110)
