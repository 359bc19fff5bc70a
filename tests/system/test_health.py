"""The public listener's health services, called by a stock gRPC client over TLS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.pki.keyring import create_cluster
from svc.testing.gateway.processes import environment
from svc.testing.gateway.settings import AUTHORITY, PROXY
from tests.support.proof import proves
from tests.system.common import ada, shared
from tests.system.raw import greeted

OURS, STOCK = "/gate.v1.Health/Check", "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
HEALTH = (OURS, STOCK, WATCH)
SERVING = "0801"
"""The message whose field 1 is SERVING, as any gRPC client reads it."""
UNIMPLEMENTED = "12"


def probes(*asked: dict[str, Any]) -> list[list[str]]:
    """What grpcio is answered, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.grpc_probe"],
        input=json.dumps(asked),
        env=environment(Path.home(), {"GRPC_VERBOSITY": "NONE"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers: list[list[str]] = json.loads(done.stdout)
    return answers


def root_of() -> str:
    """The file of the cluster's root, as any joined person has it."""
    return str(ada().directory / "trust" / "root.pem")


def pair(directory: Path) -> list[str]:
    """Key and certificate chain of the identity in a directory, as two files."""
    current = directory / "identity" / "current"
    whole = directory / "whole.pem"
    whole.write_bytes(
        b"".join((current / f"{name}.pem").read_bytes() for name in ("leaf", "chain"))
    )
    return [str(current / "key.pem"), str(whole)]


def status_of(address: str, method: str, pair: Sequence[str] = ()) -> str:
    """The ``grpc-status`` of a call to whoever answers there; empty where none came about."""
    raw = greeted(address, "127.0.0.1", pair)
    try:
        raw.send(raw.request(1, method))
        return "".join(raw.until_answered().statuses)
    finally:
        raw.close()


class HealthTests(SynchronousTestCase):
    """Anyone may ask; nobody else answers."""

    def setUp(self) -> None:
        self.gateway = shared()
        self.root = root_of()
        self.public = {"address": self.gateway.public, "root": self.root, "methods": HEALTH}

    @proves("G-HLT-01", "G-HLT-02", "G-HLT-03")
    def test_over_tls(self) -> None:
        """Both services answer with and without a client certificate; a wrong CA fails."""
        directory = Path(self.mktemp()).absolute()
        create_cluster(directory, "other.example", time.time, os.urandom)
        other = str(directory / "root.pem")
        certificate = self.public | {"pair": pair(ada().directory)}
        wrong = self.public | {"root": other}
        named = self.public | {"name": "elsewhere.example"}
        self.assertEqual(
            probes(self.public, certificate, wrong, named),
            [[SERVING] * 3, [SERVING] * 3, ["UNAVAILABLE"] * 3, ["UNAVAILABLE"] * 3],
        )

    def test_nothing_else_without_certificate(self) -> None:
        """Without a client certificate everything else is refused; what is unknown, as unknown."""
        methods = ("/gate.v1.Session/Why", "/gate.v1.Health/Look", "/gate.v1.Nothing/Check")
        (answers,) = probes(self.public | {"methods": methods})
        self.assertEqual(answers[0], "UNAUTHENTICATED")
        self.assertIn(answers[1], ("UNIMPLEMENTED", "UNAUTHENTICATED"))
        self.assertIn(answers[2], ("UNIMPLEMENTED", "UNAUTHENTICATED"))

    @proves("G-OPEN-19")
    def test_no_reflection(self) -> None:
        """The public listener describes its services to nobody, whatever certificate they have."""
        methods = tuple(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
            for version in ("v1", "v1alpha")
        )
        public = {**self.public, "methods": methods}
        anybody, person = probes(public, public | {"pair": pair(ada().directory)})
        self.assertEqual(person, ["UNIMPLEMENTED"] * 2)
        self.assertLessEqual(set(anybody), {"UNIMPLEMENTED", "UNAUTHENTICATED"})

    @proves("G-HLT-04")
    def test_authority(self) -> None:
        """No listener of the Authority answers a health call, whoever asks.

        A stock client finds no name in the Authority's certificate and asks nothing: so this
        one looks at no name, and shows by another call that it is understood.
        """
        addresses = dict(self.gateway.listening(AUTHORITY))
        proxy = pair(self.gateway.files.state(PROXY))
        person = pair(self.gateway.add_person("hal").directory)
        (answers,) = probes({"address": addresses.pop("telemetry"), "methods": HEALTH})
        self.assertEqual(answers, ["UNAVAILABLE"] * len(HEALTH))  # it speaks no HTTP/2
        for name, (method, is_open) in {
            "control": ("/gate.v1.Control/Authorize", False),
            "join": ("/gate.v1.Bootstrap/Enroll", True),
            "renewal": ("/gate.v1.Renewal/Renew", False),
            "admin": ("/gate.v1.Admin/Status", False),
        }.items():
            address, holder = addresses.pop(name), person if name == "admin" else proxy
            for path in HEALTH:
                self.assertEqual(status_of(address, path, holder), UNIMPLEMENTED, (name, path))
                stranger = UNIMPLEMENTED if is_open else ""
                self.assertEqual(status_of(address, path), stranger, (name, path))
            self.assertNotIn(status_of(address, method, holder), ("", UNIMPLEMENTED), name)
        self.assertEqual(addresses, {})

    @proves("G-HLT-05", "X-27")
    def test_without_authority(self) -> None:
        """Health does not ask Authority: it is SERVING with Authority killed."""
        self.gateway.child(AUTHORITY).kill()
        try:
            self.assertEqual(probes(self.public), [[SERVING] * 3])
        finally:
            self.gateway.start(AUTHORITY)

    @proves("G-ROLE-12")
    def test_plaintext(self) -> None:
        """A listener made plaintext on purpose answers health, and no session service."""
        gateway = self.gateway
        gateway.configure(PROXY, {"proxy.public_plaintext": True})
        try:
            gateway.restart(PROXY)
            methods = (OURS, STOCK, "/gate.v1.Session/Why", "/gate.v1.Session/List")
            plain = {"address": gateway.public, "methods": methods}
            told, over_tls = probes(plain, self.public)
            self.assertEqual(told, [SERVING, SERVING, *["FAILED_PRECONDITION"] * 2])
            self.assertEqual(over_tls, ["UNAVAILABLE"] * 3)
        finally:
            gateway.configure(PROXY, {"proxy.public_plaintext": False})
            gateway.restart(PROXY)
            gateway.await_tunnels(1)
