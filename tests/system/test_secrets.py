"""What is secret leaves no trace: not in the store, not in a log at any level, not in an export."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY
from tests.fault.bad_policies import policy
from tests.support.files import contents_below
from tests.support.proof import proves
from tests.system.common import ROLES, shared
from tests.system.second_writer import removed, stored, taken_over
from tests.system.test_health import probes

PASSWORD, COOKIE, BEARER = "hunter2-in-a-query", "c00kie-of-a-session", "bearer-of-a-caller"
POLICY_WORD = "canary_of_a_policy"
REQUEST = (
    f"GET /login?user=ada&password={PASSWORD} HTTP/1.1\r\nHost: app\r\n"
    f"Cookie: session={COOKIE}\r\nAuthorization: Bearer {BEARER}\r\n\r\n"
).encode()


def logged(gateway: Gateway) -> Iterator[tuple[str, bytes]]:
    """Everything that any process of the gateway and its people has said."""
    for name, data in kept(gateway):
        if name.endswith(".log"):
            yield name, data


def kept(gateway: Gateway) -> Iterator[tuple[str, bytes]]:
    """Every file there is but the tokens' own."""
    for path, data in contents_below(gateway.directory):
        if path.suffix != ".token":
            yield str(path.relative_to(gateway.directory)), data


def keys(directory: Path) -> Iterator[bytes]:
    """Of each private key there is a line that holds some of its secret."""
    for _, text in contents_below(directory):
        if b"PRIVATE KEY" in text:
            body = [line for line in text.splitlines() if not line.startswith(b"-----")]
            yield body[min(1, len(body) - 1)]


class SecretTests(SynchronousTestCase):
    """One gateway at ``RUST_LOG=trace``, everything secret sent through it."""

    def setUp(self) -> None:
        self.gateway = shared()

    def canaries(self) -> list[bytes]:
        """The secrets that are sent by the time this returns, joining included."""
        gateway = self.gateway
        cara = ("persons", "add", "cara", "--group", "ops", "--create-groups")
        token = gateway.operator(*cara).stdout.strip()
        person = GatewayPerson("cara", gateway.directory / "home-cara", gateway.files.cluster)
        person.join(gateway.public, gateway.pin, token)
        # Once more: refused, because it is spent; and one that nobody made.
        for wrong in (token, token[:-8] + "00000000"):
            words = ("join", "--proxy", gateway.public, "--ca-pin", gateway.pin)
            again = person.svc(*words, "--dir", str(person.home / "again"), stdin=wrong.encode())
            self.assertEqual(again.status, 1)
            (person.home / "again.log").write_text(again.stderr + again.stdout)
        gateway.people.append(person)
        self.session(person)
        tokens = [path.read_bytes().strip() for path in gateway.files.tokens()]
        self.assertGreaterEqual(len(tokens), 2)
        # A token's id is public; what follows it is not.
        parts = [one.split(b"_", 2)[2][:43] for one in (*tokens, token.encode())]
        return [*parts, *(word.encode() for word in (PASSWORD, COOKIE, BEARER))]

    def session(self, person: GatewayPerson) -> None:
        """What a browser would send, through the resident's port, and as a caller's metadata."""
        resident = person.up()
        resident.stop()
        resident.environ = {**resident.environ, "RUST_LOG": "trace"}
        person.up("echo")
        with socket.create_connection(person.endpoint("echo"), 10) as browser:
            browser.sendall(REQUEST)
            browser.shutdown(socket.SHUT_WR)
            self.assertEqual(b"".join(iter(lambda: browser.recv(4096), b"")), REQUEST)
        probes(
            {
                "address": self.gateway.public,
                "root": str(person.directory / "trust" / "root.pem"),
                "methods": ["/gate.v1.Health/Check", "/gate.v1.Session/Why"],
                "metadata": [["authorization", f"Bearer {BEARER}"], ["cookie", COOKIE]],
            }
        )

    @proves("G-LOG-07")
    def test_canaries(self) -> None:
        """Tokens, passwords, cookies and private keys are in no log, store, export or metric."""
        canaries = self.canaries()
        exports = [self.gateway.operator("audit", "show", "--last", "1000", "--json").stdout]
        exports += [self.gateway.operator("audit", "show", "--last", "1000", "--long").stdout]
        exports += [self.gateway.get(role, "/metrics")[1] for role in ROLES]
        exports += [self.gateway.operator("persons", "list", "--json").stdout]
        places = [*kept(self.gateway), *(("export", one.encode()) for one in exports)]
        self.assertTrue(any(name.endswith("/store.db") for name, _ in places))
        self.assertTrue(any(name.endswith("up.log") for name, _ in places))
        found = [(name, word) for name, data in places for word in canaries if word in data]
        self.assertEqual(found, [])
        lines = list(keys(self.gateway.directory))
        self.assertGreater(len(lines), 5)
        logs = list(logged(self.gateway))
        found = [(name, line) for name, data in logs for line in lines if line in data]
        self.assertEqual(found, [])
        # What is looked for would be seen: the same search finds what is no secret.
        self.assertTrue(any(b'"echo"' in data for _, data in logs))
        self.assertIn("tcpConnect", exports[0])

    @proves("G-LOG-07")
    def test_policy(self) -> None:
        """A policy's text is in no log: neither one in force nor one that is refused."""
        text = policy(f'context has hour && "{POLICY_WORD}" == ""')
        self.gateway.set_policy(text)
        wrong = policy(f"principal.{POLICY_WORD} > 3")
        ran = self.gateway.operator("policy", "set", "-", stdin=wrong.encode(), check=False)
        self.assertIn(POLICY_WORD, ran.stderr)  # who wrote it is told what is wrong
        version = stored(self.gateway, wrong)
        self.addCleanup(taken_over, self.gateway)
        self.addCleanup(removed, self.gateway, version)
        child = self.gateway.child(AUTHORITY)
        until(
            "the stored text's refusal",
            lambda: re.search(rf'a stored policy was refused.*"version":{version}\b', child.text()),
            alive=[child],
        )
        found = [name for name, data in logged(self.gateway) if POLICY_WORD.encode() in data]
        self.assertEqual(found, [])
