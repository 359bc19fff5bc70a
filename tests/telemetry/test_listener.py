"""The telemetry listener: three paths, one method, and limits on what it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.protocol import connectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svc.runtime.services import Readiness
from svc.telemetry.listener import MAX_BODY, REQUEST_SECS, TelemetryChannel, telemetry_site
from svc.telemetry.metrics import Metrics
from tests.support.proof import proves
from tests.telemetry.test_logs import Written

METHODS = ("HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "get", "FOO")
ELSEWHERE = (
    "/",
    "/metricsx",
    "/healthz/",
    "/metrics/",
    "//metrics",
    "/%6detrics",
    "/../metrics",
    "/metrics/../healthz",
    "/debug",
    "/Healthz",
    "/healthz;x",
    "http://h/metrics",
    "*",
    "/static/",
    "/metrics%00",
)


class Transport(StringTransport):
    """A connection in memory that remembers how it was cut."""

    aborted = False

    def abortConnection(self) -> None:
        """Cut at once."""
        self.aborted = True
        self.loseConnection()


class Wire:
    """One connection to a telemetry listener."""

    def __init__(
        self, clock: Clock, readiness: Readiness, lacking: Callable[[], Sequence[str]] = tuple
    ) -> None:
        self.metrics = Metrics(["proxy"])
        site = telemetry_site(clock, lambda: readiness.missing, self.metrics.text, lacking)
        channel = site.buildProtocol(None)
        assert isinstance(channel, TelemetryChannel)
        self.channel = channel
        self.transport = Transport()
        channel.makeConnection(self.transport)

    def send(self, data: bytes) -> bytes:
        """Send bytes; what came back."""
        self.transport.clear()
        self.channel.dataReceived(data)
        return bytes(self.transport.value())

    def ask(self, method: str, path: str, *headers: str) -> tuple[int, dict[str, str], bytes]:
        """Ask on this connection: status, headers in lower case, body."""
        lines = [f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]
        head, _, body = self.send("\r\n".join(lines).encode()).partition(b"\r\n\r\n")
        status, *rest = head.decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in rest)
        return int(status.split()[1]), {name.lower(): value for name, value in pairs}, body


class ListenerTests(SynchronousTestCase):
    """What is asked and what is answered."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.ready = Readiness("public listener", "control pool")
        self.wires: list[Wire] = []

    def wire(self) -> Wire:
        """A new connection, closed after the test."""
        self.wires.append(Wire(self.clock, self.ready))
        return self.wires[-1]

    def tearDown(self) -> None:
        for wire in self.wires:
            wire.channel.connectionLost(connectionDone)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    @proves("G-TEL-03", "G-TEL-04", "G-TEL-10", "G-OPEN-30", "G-RDY-10")
    def test_health_and_readiness(self) -> None:
        """Alive at once; not ready, with what is missing, until all is met; then ready."""
        wire = self.wire()
        self.assertEqual(wire.ask("GET", "/healthz")[::2], (200, b"ok\n"))
        status, headers, body = wire.ask("GET", "/readyz")
        self.assertEqual(status, 503)
        self.assertEqual(body, b"not ready: public listener, control pool\n")
        self.assertEqual(headers["content-type"], "text/plain; charset=utf-8")
        self.ready.met("public listener")
        self.assertEqual(wire.ask("GET", "/readyz")[2], b"not ready: control pool\n")
        self.ready.met("control pool")
        self.assertEqual(wire.ask("GET", "/readyz")[::2], (200, b"ready\n"))
        self.ready.lost("control pool")
        self.assertEqual(wire.ask("GET", "/readyz")[0], 503)
        self.assertEqual(wire.ask("GET", "/healthz")[0], 200)

    @proves("G-RDY-04")
    def test_ready_with_something_lacking(self) -> None:
        """What a ready role cannot do now is told line by line, and it stays ready."""
        wire = Wire(self.clock, Readiness(), lambda: ("policy (stale)", "audit spool (full)"))
        self.wires.append(wire)
        answer = wire.ask("GET", "/readyz")
        told = b"ready\nlacking: policy (stale)\nlacking: audit spool (full)\n"
        self.assertEqual(answer[::2], (200, told))

    def test_not_ready_with_something_lacking(self) -> None:
        """A role that is not ready tells the same, below what it is not ready for."""
        wire = Wire(self.clock, self.ready, lambda: ("control pool (away)", "policy (stale)"))
        self.wires.append(wire)
        told = b"not ready: public listener, control pool\n"
        told += b"lacking: control pool (away)\nlacking: policy (stale)\n"
        self.assertEqual(wire.ask("GET", "/readyz")[::2], (503, told))

    @proves("G-TEL-05", "G-MET-02", "G-OPEN-30")
    def test_metrics(self) -> None:
        """The exposition, in the text format, whatever the query says."""
        wire = self.wire()
        wire.metrics.counter("svc_authority_pool_moves_total").inc()
        for path in ("/metrics", "/metrics?x=1", "/metrics?"):
            status, headers, body = wire.ask("GET", path, "Accept: application/openmetrics-text")
            self.assertEqual(status, 200)
            self.assertEqual(headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
            self.assertIn(b"svc_authority_pool_moves_total 1.0\n", body)

    @proves("G-TEL-07", "X-02", "X-03", "G-OPEN-30")
    def test_other_methods(self) -> None:
        """Whatever is not GET is 405 with Allow: GET, on known and unknown paths alike."""
        for method in METHODS:
            for path in ("/healthz", "/readyz", "/metrics", "/nope", "/"):
                with self.subTest(method=method, path=path):
                    status, headers, body = self.wire().ask(method, path)
                    self.assertEqual((status, headers["allow"]), (405, "GET"), f"{method} {path}")
                    self.assertEqual(body, b"" if method == "HEAD" else b"method not allowed\n")

    @proves("G-TEL-06", "G-TEL-08")
    def test_other_paths(self) -> None:
        """Any other path is 404, and the answer repeats nothing of it."""
        for path in ELSEWHERE:
            with self.subTest(path=path):
                status, headers, body = self.wire().ask("GET", path)
                self.assertEqual((status, body), (404, b"not found\n"), path)
                self.assertNotIn("location", headers)

    @proves("G-TEL-01")
    def test_no_credentials_asked(self) -> None:
        """No header is needed, and one that is there changes nothing."""
        wire = self.wire()
        self.assertEqual(wire.send(b"GET /healthz HTTP/1.0\r\n\r\n")[8:15], b" 200 OK")
        again = self.wire()
        self.assertEqual(again.ask("GET", "/healthz", "Authorization: Basic eDp5")[0], 200)

    def test_tells_nothing_of_itself(self) -> None:
        """No answer names a server or a version."""
        for method, path in (("GET", "/healthz"), ("GET", "/x"), ("POST", "/x")):
            self.assertNotIn("server", self.wire().ask(method, path)[1])

    def test_pipelined(self) -> None:
        """Requests sent together are answered in their order."""
        request = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = self.wire().send(request % b"/healthz" + request % b"/x" + request % b"/readyz")
        codes = [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]
        self.assertEqual(codes, [200, 404, 503])

    def test_ambiguous_requests(self) -> None:
        """A request whose length can be read two ways is refused and the connection closed."""
        for bad in (
            b"Content-Length: 3\r\nContent-Length: 4",
            b"Content-Length: 3\r\nTransfer-Encoding: chunked",
            b"Transfer-Encoding: xchunked",
            b"Content-Length: +3",
            b"Content-Length: -1",
            b"no colon",
            b"bad name: x",
        ):
            with self.subTest(bad=bad):
                wire = self.wire()
                answer = wire.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + bad + b"\r\n\r\n")
                self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)
                self.assertTrue(wire.transport.disconnecting)


class QuietTests(SynchronousTestCase):
    """Nobody fills the log by asking."""

    def test_no_line_for_a_request(self) -> None:
        """No request, slow, refused or well answered, writes a line that the default shows."""
        clock, written = Clock(), Written()
        written.settle(None)
        globalLogPublisher.addObserver(written.lines)
        self.addCleanup(globalLogPublisher.removeObserver, written.lines)
        for method, path in (("GET", "/healthz"), ("HEAD", "/healthz"), ("POST", "/x")):
            Wire(clock, Readiness()).ask(method, path)
        Wire(clock, Readiness()).send(b"GET / HT")
        clock.advance(REQUEST_SECS)
        large = Wire(clock, Readiness())
        large.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n")
        large.send(b"x" * (MAX_BODY + 1))
        self.assertEqual(written.text, [])


class LimitTests(SynchronousTestCase):
    """A caller cannot cost more than a little, however slow or large."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.wire = Wire(self.clock, Readiness())

    def tearDown(self) -> None:
        self.wire.channel.connectionLost(connectionDone)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_slow_headers(self) -> None:
        """A request that comes byte by byte is cut when its time is over."""
        for byte in b"GET /healthz HTTP/1.1\r\nHost: x"[: REQUEST_SECS - 1]:
            self.wire.send(bytes([byte]))
            self.clock.advance(1)
        self.assertFalse(self.wire.transport.aborted)
        self.wire.send(b"x")
        self.clock.advance(1.5)
        self.assertTrue(self.wire.transport.aborted)

    def test_silence(self) -> None:
        """A connection that says nothing is closed."""
        self.clock.advance(REQUEST_SECS)
        self.assertTrue(self.wire.transport.aborted)

    def test_time_begins_anew(self) -> None:
        """A connection that is used stays open from request to request."""
        for _ in range(5):
            self.clock.advance(REQUEST_SECS - 1)
            self.assertEqual(self.wire.ask("GET", "/healthz")[0], 200)
        self.assertFalse(self.wire.transport.disconnecting)

    def test_many_and_large_headers(self) -> None:
        """Too many headers, or too many bytes of them, are refused."""
        answer = self.wire.send(b"GET /healthz HTTP/1.1\r\n" + b"A: b\r\n" * 65 + b"\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 400 "))
        other = Wire(self.clock, Readiness())
        other.send(b"GET /" + b"x" * 65536 + b" HTTP/1.1\r\n\r\n")
        self.assertTrue(other.transport.disconnecting)
        other.channel.connectionLost(connectionDone)

    def test_large_body(self) -> None:
        """A body is thrown away as it comes, and past a limit the connection is cut."""
        self.wire.send(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n")
        self.wire.send(b"x" * MAX_BODY)
        self.assertFalse(self.wire.transport.aborted)
        self.wire.send(b"x")
        self.assertTrue(self.wire.transport.aborted)
