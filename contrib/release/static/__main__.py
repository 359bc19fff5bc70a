"""Print the lock of the packages that apt offers now: their names, versions and SHA-256.

    apt-get update && python -m contrib.release.static > new.lock
    mv new.lock contrib/release/static/packages.lock

apt has verified these digests by the signature of its archive.  Whoever changes the lock reads what
changed, and runs the tests.
"""

from __future__ import annotations

import sys

from contrib.release.plan import ReleaseRefused
from contrib.release.static.packages import offered


def main() -> int:
    """The exit status."""
    try:
        for one in offered():
            print(one.name, one.version, one.digest)
    except ReleaseRefused as refused:
        print(f"release: {refused.text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
