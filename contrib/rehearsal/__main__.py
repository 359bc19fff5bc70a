"""Rehearse an upgrade from one program to that of a release, and the way back.

    python -m contrib.rehearsal --old FILE --release DIR --pubkey FILE

FILE of --old is the one file that runs today; DIR holds the artifacts of the release as they were
downloaded, its one file among them; they are verified before that file is run.  Makes a gateway of
its own in a temporary directory, and prints each step that passed.  Needs OpenSSH's client and
server, and on the PATH the Python that both files are for.  The exit status is 0 only if every step
passed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import SkipTest

from contrib.rehearsal.steps import Rehearsal
from svc.errors import SvcError


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser("python -m contrib.rehearsal", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--old", type=Path, required=True, help="the one file of today")
    parser.add_argument("--release", type=Path, required=True, help="the artifacts of the release")
    parser.add_argument("--pubkey", type=Path, required=True, help="PEM of the release's key")
    given = parser.parse_args(arguments)
    rehearsal = Rehearsal(old=given.old, release=given.release, public_key=given.pubkey)
    try:
        for step in rehearsal.whole():
            print(f"ok  {step}", flush=True)
    except (SvcError, AssertionError, SkipTest) as failed:
        print(f"rehearsal: {failed}", file=sys.stderr)
        return 1
    finally:
        rehearsal.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
