"""Which processes may work on which analyses while two releases run side by side.

Every record carries the number that its options need. A coordinator or worker that speaks less leaves the analysis as
it is and hands the message on, so that a newer process does the work; it never guesses.

A release that adds an option gives it a line in `_SINCE`, and where it changes what records or messages mean, raises
PROTOCOL and what every analysis needs. Nothing else may change: docs/operations.md, "Upgrades".
"""

from collections.abc import Mapping

from prover.analysis import Options

PROTOCOL = 2
"""What this release speaks."""

FIRST_OPTIONS = frozenset(
    {
        "judge", "mode", "samples", "weight", "max_turns", "policy", "continuations", "fidelity", "agent",
        "temperature", "top_p", "max_tokens", "normalise_std", "allowed_lag", "reward_range", "keep_continuations",
        "proposals", "credit", "budget",
    }
)  # fmt: skip
"""Options that every release understands."""

_SINCE: Mapping[str, tuple[int, object]] = {"audited_share": (2, 0.25)}
"""A later option -> the protocol that knows it, and the value that means what was always done."""


class NewerAnalysis(Exception):
    """This process is too old for an analysis. Another one may not be."""


def needed_for(options: Options) -> int:
    """The least protocol that does what these options ask for."""
    return max([1, *(_SINCE[name][0] for name in later_asked(options))])


def later_asked(options: Options) -> tuple[str, ...]:
    """The later options that ask for something else than was always done. An earlier release refuses their names."""
    return tuple(name for name, (_, as_before) in _SINCE.items() if getattr(options, name) != as_before)


def later_options() -> frozenset[str]:
    """The names in the table of later options."""
    return frozenset(_SINCE)


def check_protocol(needed: int) -> None:
    """Raises NewerAnalysis where an analysis needs more than this process speaks."""
    if needed > PROTOCOL:
        raise NewerAnalysis(
            f"protocol: the analysis needs {needed}, this process speaks {PROTOCOL}; expected coordinators and workers "
            "at least as new as the gateway"
        )
