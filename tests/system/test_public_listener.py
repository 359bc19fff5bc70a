"""A public listener as it ships: its budget, its TLS, and those who stall before it."""

from __future__ import annotations

import resource
import socket
import ssl
import subprocess
from base64 import b64decode
from functools import cache
from pathlib import Path

from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import PROXY, GatewayTarget
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system import raw_tls
from tests.system.test_health import OURS, SERVING, STOCK, probes
from tests.system.test_roles import through
from tests.system.world import around

REFUSED = "svc_public_anonymous_refused_total"
HANDSHAKE_SECS = 2
EXHAUSTED, UNIMPLEMENTED, UNAUTHENTICATED, OK = "8", "12", "16", "0"


@cache
def listener() -> Gateway:
    """A gateway whose Proxy has the shipped budget, a short handshake, and takes TLS 1.2."""
    target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
    numbers = {
        "limits.anonymous_per_minute": 60,
        "limits.anonymous_burst": 20,
        "limits.handshake_secs": HANDSHAKE_SECS,
        "proxy.tls_min_version": "1.2",
    }
    return make_gateway([target], numbers=numbers)


@cache
def person() -> GatewayPerson:
    """A person who may use ``echo``."""
    return listener().add_person("ada", "ops")


def root() -> str:
    """The file of the cluster's root."""
    return str(person().directory / "trust" / "root.pem")


def tls(source: str = "127.0.0.1") -> ssl.SSLSocket:
    """A stock client's connection, its handshake done."""
    door = raw_tls.connected(listener().public, source)
    return raw_tls.client_context(root()).wrap_socket(door, server_hostname="localhost")


class BudgetTests(SynchronousTestCase):
    """What addresses may ask without a certificate."""

    def curl(
        self, source: str, path: str, *headers: str, message: bytes = b""
    ) -> list[dict[str, str]]:
        """The header fields and trailers of each answer.

        Without a message: curl asks again where an answer comes before its body has gone.
        """
        body = Path(self.mktemp())
        body.write_bytes(message)
        port = listener().public.rpartition(":")[2]
        words = [
            stock_tool("curl"),
            "--silent",
            "--http2",
            "--cacert",
            root(),
            "--interface",
            source,
            "--resolve",
            f"localhost:{port}:127.0.0.1",
            "--dump-header",
            "-",
            "--output",
            "/dev/null",
            "--data-binary",
            f"@{body}",
        ]
        for one in ("content-type: application/grpc", "te: trailers", *headers):
            words += ["--header", one]
        ran = subprocess.run(
            [*words, f"https://localhost:{port}{path}"], capture_output=True, timeout=60, check=True
        )
        answers: list[dict[str, str]] = []
        for line in ran.stdout.decode("ascii").splitlines():
            if line.startswith("HTTP/2"):
                answers.append({})
            elif ": " in line:
                name, _, value = line.partition(": ")
                answers[-1][name] = value
        return answers

    def statuses(self, source: str, path: str, message: bytes = b"") -> list[str]:
        return [one["grpc-status"] for one in self.curl(source, path, message=message)]

    @proves("G-IDN-07", "G-LIM-06", "G-OPEN-02", "G-OPEN-03", "G-MET-23")
    def test_addresses(self) -> None:
        """Past the burst an address is refused with RetryInfo, whatever it claims to be."""
        gateway = listener()
        before = gateway.metric(PROXY, REFUSED, rpc="other")
        asked = self.statuses("127.0.0.2", "/gate.v1.Nothing/At[1-60]")
        self.assertEqual(asked[:20], [UNIMPLEMENTED] * 20)
        self.assertIn(EXHAUSTED, asked[20:])
        spoofs = (
            "x-forwarded-for: 198.51.100.7",
            "forwarded: for=198.51.100.7",
            "x-real-ip: 198.51.100.7",
        )
        spoofed = self.curl("127.0.0.2", "/gate.v1.Session/Open?[1-9]", *spoofs)
        refused = [one for one in spoofed if one["grpc-status"] == EXHAUSTED]
        self.assertNotEqual(refused, [])
        raw = refused[0]["grpc-status-details-bin"]
        details = Status.FromString(b64decode(raw + "=" * (-len(raw) % 4))).details
        again = RetryInfo()
        self.assertEqual([one.Unpack(again) for one in details].count(True), 1)
        self.assertLessEqual(again.retry_delay.ToMilliseconds(), 1000)
        self.assertEqual(self.statuses("127.0.0.2", OURS, bytes(5)), [OK])
        self.assertEqual(self.statuses("127.0.0.3", "/gate.v1.Tunnel/Carry"), [UNAUTHENTICATED])
        counted = asked.count(EXHAUSTED) + len(refused)
        self.assertEqual(gateway.metric(PROXY, REFUSED, rpc="other") - before, counted)

    @proves("G-HLT-06", "X-33")
    def test_health(self) -> None:
        """10,000 checks from one address are all answered, and nothing is counted as refused."""
        before = listener().metric(PROXY, REFUSED)
        with tls("127.0.0.4") as door:
            ends = raw_tls.unary_calls(door, OURS, 10_000, at_once=30)
        self.assertEqual(dict(ends), {OK: 10_000})
        self.assertEqual(listener().metric(PROXY, REFUSED), before)


class TlsTests(SynchronousTestCase):
    """What is spoken before HTTP/2."""

    def s_client(self, *words: str) -> str:
        """What a stock client reports of its handshake."""
        command = [
            stock_tool("openssl"),
            "s_client",
            "-connect",
            listener().public,
            "-CAfile",
            root(),
            "-verify_return_error",
            "-alpn",
            "h2",
            *words,
        ]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        return ran.stdout.decode("utf-8", "replace")

    def test_versions(self) -> None:
        """TLS 1.3 and, as it is configured, 1.2 with ECDHE and AEAD are taken; nothing older is."""
        for version, suite in (("-tls1_3", "TLS_AES"), ("-tls1_2", "ECDHE-ECDSA-")):
            said = self.s_client(version)
            self.assertRegex(said, rf"Cipher is {suite}\S*(GCM|CHACHA20)")
            self.assertIn("ALPN protocol: h2", said)
        for refused in (
            ("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"),
            ("-tls1_2", "-cipher", "kRSA"),
            ("-tls1_2", "-cipher", "ECDHE+AES128+SHA256"),
        ):
            self.assertIn("Cipher is (NONE)", self.s_client(*refused), refused)

    def test_other_words(self) -> None:
        """A PROXY header, plain HTTP and TLS without h2 are ended; single bytes are no matter."""
        first = (
            b"PROXY TCP4 198.51.100.7 127.0.0.1 4711 443\r\n",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc6\x33\x64\x07\x7f\0\0\x01\x12\x67\x01\xbb",
            b"GET /gate.v1.Health/Check HTTP/1.1\r\nHost: localhost\r\n\r\n",
            raw_tls.PREFACE,
        )
        hello = raw_tls.client_hello(raw_tls.client_context(root()))
        for one in first:
            with raw_tls.connected(listener().public) as door:
                door.sendall(one + hello)
                heard = b""
                while chunk := _rest(door):
                    heard += chunk
                self.assertIn(heard[:1], (b"", b"\x15"), one)  # nothing, or an alert
        plain = raw_tls.client_context(root())
        plain.set_alpn_protocols([])
        door = raw_tls.connected(listener().public)
        with plain.wrap_socket(door, server_hostname="localhost") as talk:
            self.assertEqual(_rest(talk), b"")
        with raw_tls.connected(listener().public) as door:
            spoken = raw_tls.by_the_byte(door, raw_tls.client_context(root()))
            self.assertEqual(spoken.selected_alpn_protocol(), "h2")

    def test_stalled(self) -> None:
        """Who stops amid the handshake, or after it, is closed; sessions open meanwhile."""
        hello = raw_tls.client_hello(raw_tls.client_context(root()))
        stalled: list[socket.socket] = []
        for number in range(120):
            source = f"127.0.0.{2 + number % 8}"
            door = tls(source) if number % 3 == 0 else raw_tls.connected(listener().public, source)
            if number % 3 == 1:
                door.sendall(hello[: len(hello) // 2])
            stalled.append(door)
        try:
            self.assertEqual(through(person()), b"word")
            self.assertEqual(raw_tls.left_open(stalled, HANDSHAKE_SECS + 20), 0)
        finally:
            for door in stalled:
                door.close()
        self.assertEqual(through(person()), b"word")


class DescriptorTests(SynchronousTestCase):
    """A Proxy that may reached its limit of open files."""

    def test_none_left(self) -> None:
        """With no descriptor left it goes on, says so in few words, and answers later."""
        gateway = listener()
        child = gateway.child(PROXY)
        handles = len(list(Path(f"/proc/{child.pid}/fd").iterdir()))
        before = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
        said = len(child.text())
        asked = {"address": gateway.public, "root": root(), "methods": (OURS, STOCK)}
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (handles + 8, before[1]))

        def warned() -> list[int]:
            told = (
                one for one in child.events() if "reached its limit of open files" in one["message"]
            )
            return [one["count"] for one in told]

        doors = [raw_tls.connected(gateway.public) for _ in range(150)]
        try:
            until("a warning", warned, alive=[child])
        finally:
            resource.prlimit(child.pid, resource.RLIMIT_NOFILE, before)
            for door in doors:
                door.close()
        self.assertLess(len(warned()), 3)
        until("health", lambda: probes(asked) == [[SERVING] * 2], alive=[child])

        def opens() -> bool:
            # A head or record that found no descriptor is written again within seconds.
            try:
                return through(person()) == b"word"
            except AssertionError:
                return False

        until("a session", opens, alive=[child])
        # Beside one line for each connection that ended, up to a bound of their own.
        lines = child.text()[said:].splitlines()
        self.assertLess(len([one for one in lines if "connection ended" not in one]), 40)


def _rest(door: socket.socket) -> bytes:
    try:
        return door.recv(65536)
    except ConnectionResetError:
        return b""
