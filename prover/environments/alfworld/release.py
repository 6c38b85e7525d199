"""Tells which release a game's file is of, by its domain and its grammar, and refuses what it does not know.

Both are cut into sections (an action of the domain, a block of the grammar...) and each is hashed, comments, spaces and
the task line left out. The engine's rules are written for exactly these sections, so a file with any other is refused
by name rather than played almost right.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b

from prover.environments.alfworld.known_sections import KNOWN_SECTIONS
from prover.environments.alfworld.problem import UnknownGameError
from prover.environments.alfworld.wording import RELEASES, Release

_TASK = re.compile(r'("task"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*)("(?:[^"\\\n]|\\.)*")')
_SPECIAL = re.compile(r'[;|"<>\[\]#{}\\\t\n]')
_COMMENT = re.compile(r";[^\n]*")
_GRAMMAR_SECTION = re.compile(r"^(?=(?:action\s+\w+|grammar\s*::))", re.MULTILINE)


def identify(*, domain: str, grammar: str) -> tuple[Release, str]:
    """The release of a file, and its task line.

    Raises:
        UnknownGameError: names the sections that are not those of the nearest release.
    """
    match = _TASK.search(grammar)
    if match is None:
        raise UnknownGameError('grammar: expected the task line, "task": [{"rhs": "..."}]')
    task = str(json.loads(match.group(2)))
    if _SPECIAL.search(task):
        raise UnknownGameError(f"grammar: task: was {task!r}; expected plain words, without signs of the grammar")
    return _release_of(domain, _TASK.sub(r'\1"task"', grammar, count=1)), task


@lru_cache(maxsize=8)
def _release_of(domain: str, grammar: str) -> Release:
    found: dict[str, str] = {}
    for name, section in sections(domain=domain, grammar=grammar):
        found[name] = f"{found[name]} and {section}" if name in found else section
    differences: dict[Release, list[str]] = {}
    for release in RELEASES:
        known = KNOWN_SECTIONS[release]
        differences[release] = [name for name in sorted({*known, *found}) if known.get(name) != found.get(name)]
        if not differences[release]:
            return release
    nearest = min(RELEASES, key=lambda release: len(differences[release]))
    known = KNOWN_SECTIONS[nearest]
    told = ", ".join(
        f"{name} ({'differs' if name in known and name in found else 'missing' if name in known else 'is new'})"
        for name in differences[nearest]
    )
    raise UnknownGameError(
        f"pddl_domain and grammar: not of a release that this engine knows; against {nearest!r}: {told}. "
        'The stock engine may play it: the environment "alfworld-stock"'
    )


def sections(*, domain: str, grammar: str) -> Iterator[tuple[str, str]]:
    """The name and the hash of every section, such as ("domain: action look", "0f3c...")."""
    for form in _forms(_COMMENT.sub("", domain).lower()):
        words = form.split()
        name = " ".join(words[:2] if words[0] == "(:action" else words[:1]).strip("()").removeprefix(":")
        yield f"domain: {name}", _hash(" ".join(words))
    for part in _GRAMMAR_SECTION.split(grammar):
        if part.strip():
            name = part.split("::")[0].split("{")[0].strip()
            yield f"grammar: {name}", _hash("\n".join(line.strip() for line in part.split("\n") if line.strip()))


def _forms(domain: str) -> Iterator[str]:
    """The forms inside (define ...)."""
    depth, start = 0, 0
    for match in re.finditer(r"[()]", domain):
        if match.group() == "(":
            depth += 1
            if depth == 2:
                start = match.start()
        else:
            depth -= 1
            if depth == 1:
                yield domain[start : match.end()]


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
