"""What an address without a certificate may ask of the public listener, and how it is refused."""

from __future__ import annotations

import contextlib
from typing import Any

from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.config.keys import KEYS
from svc.errors import Fault, SvcError
from svc.interfaces.rpc import Peer
from svc.messages.relay import OPEN_METHOD as RELAY_METHOD
from svc.messages.relay import Lane, encode_relay_open
from svc.proto.gate.v1 import health_pb2
from svc.proxy.anonymous import AnonymousCalls
from svc.proxy.health import CHECKS, SERVICES
from svc.ratelimit.source import IDLE_SECS, MAX_SOURCES, AddressBudget
from svc.rpc.frames import open_frame
from svc.telemetry.series import SERIES
from tests.proxy.pieces import ProxyTests, Talk, Wire
from tests.support.proof import proves

REFUSED = "svc_public_anonymous_refused_total"
UNSERVED = ("/gate.v1.Nothing/At", "/gate.v1.Session/Nothing", "/gate.v1.session/open", "//x/y")
GUARDED = (
    *(f"/gate.v1.Session/{name}" for name in ("Open", "List", "Why", "Lane")),
    "/gate.v1.Tunnel/Register",
    "/gate.v1.Tunnel/Carry",
    "/gate.v1.Tunnel/Checkpoint",
)


class PublicTests(ProxyTests):
    """The budget before the listener's methods."""

    def ask(self, method: str, wire: Wire, **call: Any) -> str:
        """The reason word that a call ends with, or nothing."""
        talk = Talk(wire.channel.stream(method, **call))
        talk.say(open_frame(encode_relay_open(Lane.ADMIN)))
        self.site.turn(10)
        talk.stream.cancel()
        self.site.turn(2)
        self.last = talk
        return talk.reason

    def spend(self, wire: Wire) -> None:
        """All that the address of this connection may ask at once."""
        for _ in range(20):
            self.assertNotEqual(self.ask("/gate.v1.Nothing/At", wire), "anonymous_budget")

    def check(self, wire: Wire) -> list[int]:
        got: list[Any] = []
        for method in CHECKS:
            request = health_pb2.HealthCheckRequest()
            calling = wire.channel.unary(method, request, health_pb2.HealthCheckResponse, timeout=5)
            Deferred.fromCoroutine(calling).addBoth(got.append)
        self.site.turn(8)
        return [one.status for one in got]

    def refused(self) -> dict[str, int]:
        return {key[1]: count for key, count in self.site.counts.items() if key[0] == "anonymous"}

    @proves("G-OPEN-02", "G-IDN-07", "G-LIM-06", "X-32")
    def test_burst_and_rate(self) -> None:
        """The 21st call at once is refused; a second later one more passes, and one only."""
        wire = self.site.connect(None)
        reasons = [self.ask(method, wire) for method in (GUARDED * 4)[:20]]
        self.assertEqual(reasons, ["unauthenticated"] * 20)
        self.assertEqual(self.ask(GUARDED[0], wire), "anonymous_budget")
        other = self.site.connect(None, "192.0.2.8")
        self.assertEqual(self.ask(GUARDED[0], other), "unauthenticated")
        self.site.pass_time(1)
        self.assertEqual(self.ask(GUARDED[0], wire), "unauthenticated")
        self.assertEqual(self.ask(GUARDED[0], wire), "anonymous_budget")

    @proves("G-OPEN-02")
    def test_shipped_numbers(self) -> None:
        """The keys and their defaults are those of the table that is tested here."""
        shipped = {key.path: key.default for key in KEYS}
        budget = AddressBudget()
        self.assertEqual(shipped["limits.anonymous_per_minute"], budget.per_minute)
        self.assertEqual(shipped["limits.anonymous_burst"], budget.burst)
        self.assertEqual((budget.per_minute, budget.burst), (60, 20))
        self.assertEqual((MAX_SOURCES, IDLE_SECS), (65_536, 600))

    @proves("G-OPEN-03")
    def test_answer(self) -> None:
        """The refusal is RESOURCE_EXHAUSTED, and says in a RetryInfo when to ask again."""
        wire = self.site.connect(None)
        self.spend(wire)
        self.site.pass_time(0.25)
        self.assertEqual(self.ask(RELAY_METHOD, wire), "anonymous_budget")
        error = self.last.error
        assert error is not None
        self.assertEqual(error.fault, Fault.EXHAUSTED)
        self.assertEqual(error.retry_after, 0.75)
        self.assertIn("try again in 1 s", error.text)
        raw = self.last.stream._stream.status.details
        told = RetryInfo()
        [packed] = [one for one in Status.FromString(raw).details if one.Is(told.DESCRIPTOR)]
        packed.Unpack(told)
        self.assertEqual(told.retry_delay.ToMilliseconds(), 750)

    @proves("G-MET-23", "X-14", "G-OPEN-03")
    def test_counted_by_known_names(self) -> None:
        """Each refusal counts under its method's name; whatever is made up counts as one word."""
        wire = self.site.connect(None)
        self.spend(wire)
        for method in (*UNSERVED, *GUARDED, RELAY_METHOD, "/grpc.health.v1.Health/Watch"):
            self.assertEqual(self.ask(method, wire), "anonymous_budget", method)
        self.assertEqual(
            self.refused(),
            {
                "other": 4,
                "Session/Open": 1,
                "Session/List": 1,
                "Session/Why": 1,
                "Session/Lane": 1,
                "Relay/Open": 1,
                "Tunnel/Register": 1,
                "Tunnel/Carry": 1,
                "Tunnel/Checkpoint": 1,
                "Health/Watch": 1,
            },
        )
        [series] = [one for one in SERIES if one.name == REFUSED]
        self.assertEqual(set(series.labels["rpc"]), self.site.public.names)

    @proves("X-14")
    @given(st.text() | st.from_regex(r"/[A-Za-z.]+/[A-Za-z]+", fullmatch=True))
    def test_any_name(self, method: str) -> None:
        """No path that a caller makes up becomes a word of the series."""
        told: list[str] = []
        public = self.site.public
        public.anonymous = AnonymousCalls(self.site.clock, told.append, AddressBudget(1, 0.5))
        with contextlib.suppress(SvcError):
            public.admit(method, Peer("192.0.2.1", 1, True))
        self.assertEqual(told, [] if method in CHECKS else ["other"])

    @proves("G-HLT-06", "X-33")
    def test_health_has_no_budget(self) -> None:
        """Hundreds of checks are answered, also where the address has nothing left."""
        wire = self.site.connect(None)
        for _ in range(150):
            self.assertEqual(self.check(wire), [1, 1])
        self.assertEqual(self.refused(), {})
        self.spend(wire)
        self.assertEqual(self.ask("/gate.v1.Nothing/At", wire), "anonymous_budget")
        self.assertEqual(self.check(wire), [1, 1])
        self.assertEqual(len(CHECKS), len(SERVICES))

    @proves("G-OPEN-03")
    def test_spoofed_headers(self) -> None:
        """No header moves a call to another bucket, nor does the loopback address."""
        for host in ("192.0.2.7", "127.0.0.1", "::1"):
            wire = self.site.connect(None, host)
            self.spend(wire)
            for number, name in enumerate(("x-forwarded-for", "forwarded", "x-real-ip", "via")):
                spoofed = ((name, f"198.51.100.{number}"),)
                reason = self.ask(GUARDED[0], wire, metadata=spoofed)
                self.assertEqual(reason, "anonymous_budget")

    def test_refused_before_any_work(self) -> None:
        """A call past the budget starts no handler, dials nothing and asks Authority nothing."""
        wire = self.site.connect(None)
        self.spend(wire)
        before = (dict(self.site.gauges), self.site.dials, len(self.site.wires))
        lanes = {key: count for key, count in self.site.counts.items() if key[0] == "lane"}
        for _ in range(50):
            self.assertEqual(self.ask(RELAY_METHOD, wire), "anonymous_budget")
        self.assertEqual((dict(self.site.gauges), self.site.dials, len(self.site.wires)), before)
        self.assertEqual(
            {key: count for key, count in self.site.counts.items() if key[0] == "lane"}, lanes
        )
        self.assertEqual(self.site.lanes_dialed, [])

    def test_certificate_is_not_charged(self) -> None:
        """Who shows a certificate is held by other limits; to join it buys no more than without."""
        wire = self.site.connect(self.site.cluster.person)
        reasons = {self.ask("/gate.v1.Nothing/At", wire) for _ in range(40)}
        self.assertEqual((reasons, self.refused()), ({"unknown_method"}, {}))

        def join() -> str:
            talk = Talk(wire.channel.stream(RELAY_METHOD))
            talk.say(open_frame(encode_relay_open(Lane.JOIN)))
            self.site.turn(10)
            talk.stream.cancel()
            self.site.turn(2)
            return talk.reason

        self.site.link.lanes = None
        reasons = {join() for _ in range(20)}
        self.assertEqual(reasons, {"authority_unreachable"})
        self.assertEqual((join(), self.refused()), ("anonymous_budget", {"Relay/Open": 1}))


def took(budget: AddressBudget, host: str, now: float) -> bool:
    return not budget.take(host, now)


class TableTests(SynchronousTestCase):
    """The table by itself."""

    @proves("G-OPEN-03")
    def test_networks(self) -> None:
        """An IPv6 site shares one budget, whatever address it takes; IPv4 inside IPv6 is IPv4."""
        budget = AddressBudget(burst=2)
        self.assertTrue(took(budget, "2001:db8::1", 0.0))
        self.assertTrue(took(budget, "2001:db8::2", 0.0))
        self.assertFalse(took(budget, "2001:db8::3", 0.0))
        self.assertTrue(took(budget, "2001:db8:0:1::1", 0.0))
        self.assertTrue(took(budget, "192.0.2.1", 0.0))
        self.assertTrue(took(budget, "::ffff:192.0.2.1", 0.0))
        self.assertFalse(took(budget, "192.0.2.1", 0.0))
        self.assertTrue(took(budget, "192.0.2.2", 0.0))

    @proves("G-OPEN-02")
    def test_bounded(self) -> None:
        """However many addresses ask, the table stays of one size, and lets the oldest go."""
        budget = AddressBudget(burst=1)
        took(budget, "first", 0.0)
        for number in range(70_000):
            took(budget, f"address-{number}", 0.0)
        self.assertEqual(budget.sources(0.0), 65_536)
        self.assertTrue(took(budget, "first", 0.0))

    @proves("G-OPEN-02")
    def test_idle(self) -> None:
        """An address that asked nothing for ten minutes is forgotten, and no other."""
        budget = AddressBudget(per_minute=1, burst=20)
        for number in range(1000):
            took(budget, f"address-{number}", 0.0)
        took(budget, "busy", 0.0)
        took(budget, "busy", 300.0)
        self.assertEqual(budget.sources(599.0), 1001)
        self.assertEqual(budget.sources(600.0), 1)
        self.assertEqual(budget.sources(900.0), 0)

    @given(
        st.lists(st.tuples(st.floats(0, 5), st.sampled_from(("192.0.2.1", "192.0.2.2")))),
        st.integers(1, 600),
        st.integers(1, 30),
    )
    def test_never_more_than_its_rate(
        self, asked: list[tuple[float, str]], per_minute: int, burst: int
    ) -> None:
        """No address gets more than burst and rate give; who waits as told gets its call."""
        budget = AddressBudget(per_minute, burst)
        passed = dict.fromkeys(("192.0.2.1", "192.0.2.2"), 0)
        now = 0.0
        for pause, host in asked:
            now += pause
            wait = budget.take(host, now)
            passed[host] += not wait
            self.assertLessEqual(passed[host], burst + now * per_minute / 60 + 1e-6)
            self.assertLessEqual(wait, 60 / per_minute)
        for host in passed:
            wait = budget.take(host, now)
            self.assertTrue(took(budget, host, now + wait + 60 / per_minute + 1e-6))
