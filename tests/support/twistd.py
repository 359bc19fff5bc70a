"""Stock ``twistd``, as a module: the fork server starts it without importing it each time."""

from __future__ import annotations

import sys

from twisted.scripts.twistd import run

if __name__ == "__main__":
    sys.exit(run())
