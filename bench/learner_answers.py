"""What tells an answer of a side from whatever a library prints."""

MARK = "measured: "
