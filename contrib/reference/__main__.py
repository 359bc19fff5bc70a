"""Write the pages, or with ``--check`` say which are stale."""

from __future__ import annotations

import sys
from pathlib import Path

from contrib.reference.pages import stale, write

DIRECTORY = Path("docs/reference")


def main(arguments: list[str]) -> int:
    """The exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__)
        return 64
    if not arguments:
        write(DIRECTORY)
        return 0
    old = stale(DIRECTORY)
    if old:
        print(f"{', '.join(old)} in {DIRECTORY}: stale; run make reference")
    return int(bool(old))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
