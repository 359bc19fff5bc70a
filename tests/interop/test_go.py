"""A Go program: it reads every certificate there is, and speaks gRPC over TLS to a listener."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.settings import AUTHORITY, PROXY
from tests.interop.certificates import GENERATION, HOST, samples
from tests.interop.golang import asked_of_go
from tests.interop.stage import ada, credentials, gateway
from tests.support.files import contents_below
from tests.support.proof import proves

HEALTH = ("/gate.v1.Health/Check", "/grpc.health.v1.Health/Check")
SERVING = "0801"
"""The message whose field 1 is SERVING."""

UNAUTHENTICATED, UNIMPLEMENTED = "status 16", "status 12"


def read(path: str | Path) -> str:
    """A file of text."""
    return Path(path).read_text("ascii")


class CertificateTests(SynchronousTestCase):
    """What crypto/x509 makes of certificates; it refuses what it cannot hold whole."""

    def seen(self) -> dict[str, dict[str, Any]]:
        """What Go says of each sort, asked in one run."""
        found = samples()
        asked = [
            {"Name": each.name, "Chain": each.chain, "Host": HOST if each.is_server else ""}
            for each in found.values()
        ]
        answer = asked_of_go({"Root": found["root"].chain[0], "Certificates": asked})
        certificates: dict[str, dict[str, Any]] = answer["certificates"]
        self.assertEqual(set(certificates), set(found))
        return certificates

    def test_every_sort(self) -> None:
        """Go parses every sort, leaves nothing critical unread, and finds the chain good."""
        for name, seen in self.seen().items():
            self.assertEqual(seen["parsed"], "ok", name)
            self.assertEqual(seen["critical"], 0, name)
            self.assertEqual(seen["uris"], [samples()[name].uri])
            self.assertEqual(seen["any"], "ok", name)

    def test_generation(self) -> None:
        """A leaf's renewal generation is the serial number of its subject; nobody else has one."""
        for name, seen in self.seen().items():
            generation = str(GENERATION) if samples()[name].is_client else ""
            self.assertEqual(seen["subject"], generation, name)

    def test_usages(self) -> None:
        """A node's certificate is a server's and a client's, a person's a client's."""
        for name, seen in self.seen().items():
            sample = samples()[name]
            if sample.is_ca:
                continue
            self.assertEqual(seen["server"] == "ok", sample.is_server, seen["server"])
            self.assertEqual(seen["client"] == "ok", sample.is_client, seen["client"])
            if sample.is_purpose:
                for end in ("server", "client"):
                    self.assertIn("incompatible key usage", seen[end])

    def test_of_a_gateway(self) -> None:
        """Go parses every certificate that lies in the files of a running gateway."""
        gateway(), ada()
        files = sorted(contents_below(gateway().directory))
        found = {
            path: data.decode("ascii")
            for path, data in files
            if path.suffix == ".pem" and b"BEGIN CERTIFICATE" in data
        }
        names = {path.stem for path in found}
        self.assertLessEqual({"root", "transport", "grant", "anchor", "leaf", "chain"}, names)
        asked = [{"Name": str(path), "Chain": [text]} for path, text in found.items()]
        root = read(gateway().files.state(AUTHORITY) / "keys" / "root.pem")
        answer = asked_of_go({"Root": root, "Certificates": asked})["certificates"]
        self.assertEqual(len(answer), len(found))
        self.assertEqual({each["parsed"] for each in answer.values()}, {"ok"})


class ListenerTests(SynchronousTestCase):
    """The listeners are those that composition builds from what ``svc init`` wrote."""

    def setUp(self) -> None:
        self.root = read(ada().directory / "trust" / "root.pem")

    def answers(self, *calls: dict[str, Any]) -> list[list[str]]:
        """What a Go client is answered, of each call's methods."""
        asked = [{"Root": self.root, "Methods": HEALTH} | each for each in calls]
        told: list[list[str]] = asked_of_go({"Calls": asked})["calls"]
        return told

    def pair(self, directory: Path) -> dict[str, str]:
        """The identity in a directory."""
        files = credentials(directory)
        return {"Key": read(files["key"]), "Pair": read(files["chain"])}

    @proves("G-HLT-01", "G-HLT-02")
    def test_health(self) -> None:
        """Both health services answer, with and without a client certificate."""
        public = {"Address": gateway().public, "Host": "localhost"}
        self.assertEqual(
            self.answers(public, public | self.pair(ada().directory)), [[SERVING] * 2] * 2
        )

    def test_chain(self) -> None:
        """The chain ends in the cluster's root, and in no other."""
        other = {"Root": samples()["root"].chain[0]}
        public = {"Address": gateway().public, "Host": "localhost"}
        (told, elsewhere) = self.answers(public | other, public | {"Host": "elsewhere.example"})
        for each in told:
            self.assertIn("x509: certificate signed by unknown authority", each)
        for each in elsewhere:
            self.assertIn("x509: certificate is valid for", each)

    def test_refusals(self) -> None:
        """What takes a certificate is refused without one by a status, not by a broken wire."""
        methods = ("/gate.v1.Session/Why", "/gate.v1.Nothing/Check")
        public = {"Address": gateway().public, "Host": "localhost", "Methods": methods}
        ((why, nothing),) = self.answers(public)
        self.assertEqual(why, UNAUTHENTICATED)
        self.assertIn(nothing, (UNAUTHENTICATED, UNIMPLEMENTED))

    def test_every_listener(self) -> None:
        """Go has TLS with every listener of Authority and Proxy, known by its SPIFFE URI."""
        calls = []
        for role in (AUTHORITY, PROXY):
            pair = self.pair(gateway().files.state(PROXY))
            leaf = gateway().files.state(role) / "identity" / "current" / "leaf.pem"
            found = asked_of_go({"Certificates": [{"Name": "leaf", "Chain": [read(leaf)]}]})
            (uri,) = found["certificates"]["leaf"]["uris"]
            addresses = gateway().listening(role)
            names = ("control", "join", "renewal") if role == AUTHORITY else ("public",)
            calls += [pair | {"Address": addresses[name], "URI": uri} for name in names]
        told = self.answers(*calls)
        self.assertEqual(told, [[UNIMPLEMENTED] * 2] * 3 + [[SERVING] * 2])
