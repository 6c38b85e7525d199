"""Which policy a continuation may come from: the one that made the group, or one that the caller allows."""

import re

_NUMBERED = re.compile(r"v(\d+)")


class Stale(Exception):
    """The engine serves another policy than the one that made the group. Names both."""


def check_version(group: str, engine: str, *, allowed_lag: int) -> None:
    """Raises Stale unless `engine` is `group`, or at most `allowed_lag` versions ahead of it.

    Versions are ordered where both are named vN; others are equal or not.
    """
    if engine == group:
        return
    ours, theirs = _NUMBERED.fullmatch(group), _NUMBERED.fullmatch(engine)
    if ours and theirs and 0 <= int(theirs[1]) - int(ours[1]) <= allowed_lag:
        return
    raise Stale(
        f"policy_version: the group is from {group!r}, the engine serves {engine!r}; "
        f"expected the same or at most {allowed_lag} versions later (allowed_lag)"
    )
