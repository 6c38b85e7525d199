"""The plot of `make bench-judges`: what share of proposals stands up, and what they gain."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_COLOURS = {"contrast": "#2b6cb0", "llm": "#6b46c1", "random": "#a0aec0", "oracle": "#2f855a"}


def plot(rows: Sequence[Mapping[str, object]], paper: Sequence[Mapping[str, object]], path: Path) -> None:
    """Bars by kind of group and judge: acceptance (with 95% intervals), raw difference above zero beside the paper's
    figures, mean gain, segment length."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 4, figsize=(15, 4), constrained_layout=True)
    panels = (
        ("acceptance", "accepted: 90% interval above 0"),
        ("positive", "raw difference above 0"),
        ("delta", "mean gain in success probability"),
        ("turns", "turns of a segment"),
    )
    for axis, (field, title) in zip(axes, panels, strict=True):
        _bars(axis, rows, field)
        axis.set_title(title, fontsize=10)
    for row in paper:
        axes[1].axhline(row["positive"], color=_COLOURS["random" if row["judge"] == "random" else "llm"], ls=":", lw=1)
        axes[1].annotate(f"paper: {row['judge']}", (0, row["positive"]), fontsize=7, va="bottom")
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _bars(axis: Any, rows: Sequence[Mapping[str, object]], field: str) -> None:
    kinds = list(dict.fromkeys(row["groups_of"] for row in rows))
    judges = list(dict.fromkeys(row["judge"] for row in rows))
    width = 0.8 / len(judges)
    for place, judge in enumerate(judges):
        mine = [row for row in rows if row["judge"] == judge]
        where = [kinds.index(row["groups_of"]) + (place - (len(judges) - 1) / 2) * width for row in mine]
        heights = [row[field] for row in mine]
        axis.bar(where, heights, width, color=_COLOURS.get(str(judge)), label=judge)
        if field == "acceptance":
            low = [row["acceptance_low"] for row in mine]
            high = [row["acceptance_high"] for row in mine]
            axis.vlines(where, low, high, color="black", lw=1)
    axis.set_xticks(range(len(kinds)), [str(kind).replace(", ", "\n") for kind in kinds], fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
