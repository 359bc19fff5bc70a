"""Check the release history: the form of each entry, and that past entries are as they were.

    python -m contrib.history

Compares with the newest tag that this commit descends from, if there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from svc.errors import SvcError
from svc.model.release import parse_tag

FILE = "CHANGELOG.md"
HEADINGS = (
    "Added",
    "Changed",
    "Fixed",
    "Compatibility",
    "Migration and recovery",
    "Artifacts and channel",
    "Verification",
)
_ENTRY = re.compile(r"^## (.*)$", re.M)
_HEADING = re.compile(r"^### (.*)$", re.M)
_TITLE = re.compile(r"(v\S+) - \d{4}-\d\d-\d\d")


def entries(text: str) -> Mapping[str, str]:
    """The body of each entry by its title, the newest first."""
    _, *parts = _ENTRY.split(text)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def findings(text: str, before: str = "") -> Iterator[str]:
    """What is wrong with a history.

    Args:
        before: The history at the newest tag.
    """
    found, versions = entries(text), []
    for title, body in found.items():
        named = _TITLE.fullmatch(title)
        try:
            versions.append(parse_tag(named[1] if named else ""))
        except SvcError:
            yield f"{title}: the heading of an entry is `## vX.Y.Z - YYYY-MM-DD`"
        _, *parts = _HEADING.split(body)
        if tuple(parts[::2]) != HEADINGS:
            yield f"{title}: its headings are not {', '.join(HEADINGS)}, in this order"
        for name, inner in zip(parts[::2], parts[1::2], strict=True):
            if not inner.strip():
                yield f"{title}: {name} is empty; write None. where there is nothing to say"
    if versions != sorted(versions, reverse=True):
        yield "the entries are not in order, the newest first"
    for title, body in entries(before).items():
        if found.get(title, "").strip() != body.strip():
            yield f"{title}: was rewritten or removed; what was published stays as it was"


def main() -> int:
    """The exit status."""
    told = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0", "--match", "v*"], capture_output=True, text=True
    )
    before = ""
    if not told.returncode:
        shown = ["git", "show", f"{told.stdout.strip()}:{FILE}"]
        before = subprocess.run(shown, capture_output=True, text=True).stdout
    wrong = list(findings(Path(FILE).read_text("utf-8"), before))
    for each in wrong:
        print(f"{FILE}: {each}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
