"""A Go program built here, once a process, with nothing but Go's own standard library."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from svc.testing.gateway.processes import environment
from tests.support.tools import stock_tool

SOURCE = Path(__file__).resolve().parent / "go" / "probe.go"
BUILDING = 180.0
"""Seconds; six of CPU time where Go has nothing compiled yet."""

CACHE = Path(sys.prefix) / "go-build"
"""What Go has compiled of its own library, kept with the environment."""

ASKING = 60.0


@cache
def built() -> str:
    """The path of the program.

    Raises:
        SkipTest: Go is not installed.
    """
    go = stock_tool("go")
    place = Path(tempfile.mkdtemp(prefix="svc-go-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    # Nothing is fetched, nothing of the developer's is used, and no C compiler is needed.
    settings = {
        "GO111MODULE": "off",
        "GOPROXY": "off",
        "GOFLAGS": "",
        "GOTOOLCHAIN": "local",
        "GOCACHE": str(CACHE),
        "CGO_ENABLED": "0",
    }
    program = place / "probe"
    subprocess.run(
        [go, "build", "-o", str(program), str(SOURCE)],
        cwd=place,
        env=environment(place, settings),
        timeout=BUILDING,
        check=True,
    )
    return str(program)


def asked_of_go(question: dict[str, Any]) -> dict[str, Any]:
    """What the program answers."""
    program = built()
    done = subprocess.run(
        [program],
        input=json.dumps(question),
        cwd=Path(program).parent,
        env=environment(Path(program).parent),
        capture_output=True,
        text=True,
        timeout=ASKING,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
