"""``python -m contrib.bench [--megabytes N]``: run, print the table, write ``bench.json``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from contrib.bench import figures, ours, peers, silent
from contrib.bench.ends import flood, start_sink
from contrib.bench.rows import Row, table, write


def main() -> int:
    """Measure everything that can be measured here; 1 when a peer is missing."""
    options = argparse.ArgumentParser(prog="contrib.bench", description=__doc__)
    options.add_argument("--megabytes", type=int, default=1000, help="bytes of one session")
    options.add_argument("--out", type=Path, default=Path("bench.json"))
    chosen = options.parse_args()
    # Each process as its user starts it, not forked from one that is warm.
    os.environ["SVC_TEST_EXEC"] = "1"
    try:
        rows = measured(chosen.megabytes)
    except peers.Missing as missing:
        print(f"bench: {missing} is not installed; see `make test` for its package")
        return 1
    print(table(rows))
    write(rows, chosen.out)
    return 0


def measured(megabytes: int) -> list[Row]:
    """Every row, all of one run."""
    sink = start_sink()
    try:
        with tempfile.TemporaryDirectory(prefix="svc-bench-") as name:
            directory = Path(name)
            with (
                peers.sshd(directory) as ssh,
                flood() as flooding,
                ours.gateway(sink.port, flooding, ssh.port) as running,
            ):
                rows = figures.throughput_rows(running, ssh, sink, directory, megabytes)
                rows += figures.stalled_rows(running, megabytes)
                rows += silent.rows(running)
                return rows + figures.opening_rows(running, ssh)
    finally:
        sink.end()


if __name__ == "__main__":
    sys.exit(main())
