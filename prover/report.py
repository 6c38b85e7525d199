"""An analysis for a person: tables in the terminal. Works on the documents that the REST API gives."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from prover.trajectory import Group, Trajectory

Document = Mapping[str, Any]


def print_analysis(
    console: Console, analysis: Document, *, group: Group | None = None, advantages: Document | None = None
) -> None:
    """Everything that is known of an analysis, in the order in which it came about."""
    if group is not None:
        console.print(trajectory_table(group, anchor=_of(analysis.get("proposal"), "trajectory_id")))
    console.print(_headline(analysis))
    if analysis.get("proposal"):
        console.print(proposal_panel(analysis["proposal"], group))
    if analysis.get("verification"):
        console.print(verification_table(analysis["verification"]))
    if advantages is not None:
        console.print(advantage_table(advantages, analysis.get("proposal"), group))


def trajectory_table(group: Group, *, anchor: str | None = None) -> Table:
    """One row a trajectory: turns, sampled tokens, outcome."""
    table = Table(title=f"Group: {escape(group.task.task_id)}, policy {group.policy_version}", title_justify="left")
    for name in ("trajectory", "turns", "sampled tokens", "outcome", "reward"):
        table.add_column(name, justify="left" if name in ("trajectory", "outcome") else "right")
    for member in group.trajectories:
        sampled = [len(turn.token_ids) for turn in member.turns if turn.token_ids is not None]
        outcome = "[green]success[/]" if member.success else "[red]failure[/]"
        name = f"{escape(member.id)} (anchor)" if member.id == anchor else escape(member.id)
        tokens = str(sum(sampled)) if sampled else "not given"
        table.add_row(name, str(len(member.turns)), tokens, outcome, f"{member.reward:g}")
    return table


def proposal_panel(proposal: Document, group: Group | None) -> Panel:
    """Where the judge says to look, and why; with the segment's text where the group is at hand."""
    first, last = proposal["first_turn"], proposal["last_turn"]
    lines = [
        f"[bold]Failure mode[/]: {escape(proposal['failure_mode'])}",
        f"[bold]Reason[/]: {escape(proposal['reason'])}",
    ]
    if group is not None:
        turns = group.trajectory(proposal["trajectory_id"]).turns
        for index in range(first, last + 1):
            lines.append(f"[dim]turn {index} read[/]: {escape(turns[index].observation.strip())}")
            lines.append(f"[dim]turn {index} wrote[/]: [bold cyan]{escape(turns[index].text.strip())}[/]")
        answer = turns[last + 1].observation.strip() if last + 1 < len(turns) else ""
        lines.append(f"[dim]and got[/]: {escape(answer)}")
    where = f"turn {first}" if first == last else f"turns {first} to {last}"
    title = f"Proposed segment: {where} of {escape(proposal['trajectory_id'])}, by judge {escape(proposal['judge'])}"
    return Panel("\n".join(lines), title=title, title_align="left")


def verification_table(verification: Document) -> Table:
    """Success rates at both boundaries and what follows from them."""
    table = Table(title="Verification: the policy played on from both boundaries", title_justify="left")
    for name in ("boundary", "successes / continuations", "success rate", "sampled tokens"):
        table.add_column(name, justify="left" if name == "boundary" else "right")
    for side in ("before", "after"):
        count = verification[side]
        rate = f"{count['successes'] / count['samples']:.3f}" if count["samples"] else "none"
        tokens = str(verification["tokens"][side])
        table.add_row(f"{side} the segment", f"{count['successes']} / {count['samples']}", rate, tokens)
    low, high = verification["interval"]
    table.caption = (
        f"delta {verification['delta']:+.3f} (90% interval {low:+.3f} to {high:+.3f}), "
        f"P(delta > 0) = {verification['probability_positive']:.3f}; "
        f"bonus {verification['bonus']:+.3f} on each sampled token of the segment; "
        f"stopped because: {escape(verification['stopped_because'])}"
    )
    table.caption_justify = "left"
    return table


def advantage_table(advantages: Document, proposal: Document | None, group: Group | None) -> Table:
    """Each turn's advantage before and after; runs of turns that share both are one row."""
    table = Table(title="Advantages of the sampled tokens, turn by turn", title_justify="left")
    for name in ("trajectory", "turns", "action", "GRPO", "with verified credit"):
        table.add_column(name, justify="left" if name in ("trajectory", "action") else "right")
    for member in advantages["trajectories"]:
        is_anchor = proposal is not None and member["trajectory_id"] == proposal["trajectory_id"]
        recorded = group.trajectory(member["trajectory_id"]) if group is not None else None
        _add_rows(table, member, recorded, whole=is_anchor)
    return table


def record_table(record: Document) -> Table:
    """A judge's verified record, one row for each prompt, environment and policy engine."""
    table = Table(title=f"Judge {escape(record['judge'])}: its audited proposals", title_justify="left")
    words = ("environment", "policy", "prompt", "last audit")
    for name in (*words[:3], "audits", "mean delta (90%)", "accepted", "record", "next bonus", words[3]):
        table.add_column(name, justify="left" if name in words else "right")
    for one in record["records"]:
        low, high = one["interval"]
        accepted = "" if one["acceptance_rate"] is None else f"{one['acceptance_rate']:.2f}"
        table.add_row(
            *(escape(one[name]) for name in ("environment", "policy", "prompt_version")),
            f"{one['window']['audits']} of {one['audits']}",
            f"{one['mean_delta']:+.3f} ({low:+.3f} to {high:+.3f})",
            accepted,
            f"{one['record']:+.3f}",
            f"{one['next_bonus']:+.3f}",
            one["window"]["last_at"] or "",
        )
    table.caption = (
        f"audits: those of the window (at most {record['window']}) of all that are kept; "
        f"next bonus: what mode {record['mode']} pays a proposal that is not audited, at lambda {record['lambda']:g}"
    )
    table.caption_justify = "left"
    return table


def features_table(record: Document) -> Table | None:
    """Where a judge is better or worse than its record; None where too few audits tell."""
    told = [(one, found) for one in record["records"] for found in one["features"] if found["shift"] != 0.0]
    if not told:
        return None
    table = Table(title="Kept apart by what a proposal is like", title_justify="left")
    words = ("environment", "policy", "prompt", "feature", "value")
    for name in (*words, "audits", "mean delta", "shift of the record"):
        table.add_column(name, justify="left" if name in words else "right")
    for one, found in told:
        where = (*(one[name] for name in words[:2]), one["prompt_version"], found["feature"], found["value"])
        numbers = (str(found["audits"]), f"{found['mean_delta']:+.3f}", f"{found['shift']:+.3f}")
        table.add_row(*map(escape, where), *numbers)
    return table


def _add_rows(table: Table, member: Document, recorded: Trajectory | None, *, whole: bool) -> None:
    before = member["group_advantage"]
    turns: Sequence[Document] = member["turns"]
    if not whole:
        span = f"0 to {len(turns) - 1}"
        table.add_row(escape(member["trajectory_id"]), span, "", f"{before:+.3f}", f"{turns[0]['advantage']:+.3f}")
        return
    for turn in turns:
        after = turn["advantage"]
        action = escape(recorded.turns[turn["turn"]].text.strip()) if recorded is not None else ""
        marked = f"[bold green]{after:+.3f}[/]" if after != before else f"{after:+.3f}"
        table.add_row(escape(member["trajectory_id"]), str(turn["turn"]), action, f"{before:+.3f}", marked)


def _headline(analysis: Document) -> str:
    line = f"Analysis [bold]{escape(analysis['id'])}[/]: {analysis['status']}"
    for key in ("error", "note"):
        if analysis.get(key):
            line += f"\n{key}: {escape(analysis[key])}"
    return line


def _of(document: Document | None, key: str) -> str | None:
    return document[key] if document else None
