"""A gateway whose Proxy serves the test service, one of its people, and stock peers as programs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from svc.testing.gateway.gateway import Gateway, init_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, environment, until
from svc.testing.gateway.settings import PROXY
from tests.support.tools import missing, stock_tool

NODE = Path(__file__).resolve().parent / "node"
JAVA = NODE.with_name("java")
INSTALLED = NODE / "node_modules" / ".made"
LARGE = 110.0
"""Seconds for a stock client's whole suite."""


@cache
def gateway() -> Gateway:
    """Authority and Proxy as ``svc init`` configured them, for this process's tests."""
    # Pings are policed as in the field; a stock client sends none sooner than every second.
    made = init_gateway(numbers={"limits.drain_secs": 20, "limits.least_ping_secs": 5})
    made.make_authority()
    made.make_proxy()
    child = made.child(PROXY)
    child.kill()
    child.words = [sys.executable, "-m", "tests.interop.proxy", str(made.files.config(PROXY))]
    made.start(PROXY)
    return made


@cache
def ada() -> GatewayPerson:
    """Somebody with a certificate."""
    return gateway().add_person("ada", "ops")


def credentials(directory: Path) -> dict[str, str]:
    """The files of an identity as stock programs take them: root, key, and chain leaf first."""
    current = directory / "identity" / "current"
    whole = directory / "whole.pem"
    parts = ((current / f"{name}.pem").read_bytes() for name in ("leaf", "chain"))
    whole.write_bytes(b"".join(parts))
    root = ada().directory / "trust" / "root.pem"
    return {"root": str(root), "key": str(current / "key.pem"), "chain": str(whole)}


def asked_of_gateway(cases: Sequence[str]) -> dict[str, Any]:
    """What a stock client reads: where, as whom, which cases."""
    return {"address": gateway().public, "cases": list(cases), **credentials(ada().directory)}


def call_gateway(words: Sequence[str], cases: Sequence[str]) -> dict[str, str]:
    """What a stock client, a program, saw of each case: ``ok``, or what was wrong."""
    done = subprocess.run(
        list(words),
        input=json.dumps(asked_of_gateway(cases)),
        env=environment(gateway().directory, {"GRPC_VERBOSITY": "NONE"}),
        capture_output=True,
        text=True,
        timeout=LARGE,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"{words}: {done.stderr}")
    told: dict[str, str] = json.loads(done.stdout)
    return told


def node(script: str) -> list[str]:
    """The words that run a program of this folder's ``node``.

    Raises:
        SkipTest: Node.js or what the program needs is not installed.
    """
    program = stock_tool("node")
    if not INSTALLED.exists():
        missing("grpc-js is not installed; `make test` installs it with npm where there is one")
    return [program, str(NODE / script)]


def stock_server(name: str, words: Sequence[str]) -> int:
    """The port of a stock server, a program that holds the Proxy's own certificate."""
    directory = gateway().directory
    asked: dict[str, Any] = credentials(gateway().files.state(PROXY))
    settings = directory / f"{name}.json"
    settings.write_text(json.dumps(asked), "ascii")
    server = Child(
        name=name, words=[*words, str(settings)], home=directory, log=directory / f"{name}.log"
    )
    server.start()

    def port() -> int | None:
        line = server.text().partition("\n")
        return int(line[0]) if line[1] else None

    return until(f"{name}'s port", port, alive=[server])
