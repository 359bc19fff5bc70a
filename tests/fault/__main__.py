"""Runs the long forms, two modules at a time: ``python -m tests.fault [WORDS]``.

WORDS choose modules by a part of their names: ``f09``.  Each module's row is printed when it has
ended, all of them once more as a table at the end; what a failing one said is printed whole.
Ends with 1 if one failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from time import monotonic

AT_ONCE = 2
_LONGEST_FIRST = ("f01", "f09", "f06", "f23")


def run(module: str, directory: Path) -> tuple[bool, str, str]:
    """Run one: whether all was well, its row, and all it said."""
    rows = directory / f"{module}.rows"
    work = directory / module
    environ = {**os.environ, "SVC_LONG": "1", "SVC_FAULT_ROWS": str(rows)}
    began = monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "twisted.trial", "--temp-directory", str(work), module],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    row = rows.read_text("utf-8").strip() if rows.exists() else f"{module}: nothing was injected"
    skipped = [line.strip() for line in ran.stdout.splitlines() if "Debian package" in line]
    for reason in dict.fromkeys(skipped):
        row += f"  (skipped: {reason})"
    return ran.returncode == 0, f"{row}  [{(monotonic() - began) / 60:.0f} min]", ran.stdout


def main(words: Sequence[str]) -> int:
    """Run the modules that the words choose, and print; the status to end with."""
    here = Path(__file__).parent
    found = sorted(path.stem for path in here.glob("test_f*.py"))
    chosen = [name for name in found if not words or any(word in name for word in words)]
    chosen.sort(key=lambda name: name[5:8] not in _LONGEST_FIRST)
    table, failed = {}, []
    with (
        tempfile.TemporaryDirectory(prefix="svc-fault-") as directory,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        place = Path(directory)
        runs = {pool.submit(run, f"tests.fault.{name}", place): name for name in chosen}
        for done in as_completed(runs):
            name = runs[done]
            is_well, table[name], said = done.result()
            if not is_well:
                failed.append(name)
                sys.stdout.write(said)
            sys.stdout.write(f"{table[name]}\n")
            sys.stdout.flush()
    sys.stdout.write("\n" + "".join(f"{table[name]}\n" for name in sorted(table)))
    if failed:
        sys.stdout.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
