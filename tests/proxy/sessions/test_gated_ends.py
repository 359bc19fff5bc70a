"""A gated session through a Proxy, and how it ends."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred

from svc.interfaces.gating import IGatedSession, IGatedStream, RequestVerdict
from svc.messages.tunnel import OpenNotice
from svc.model.session.ending import SessionOver
from svc.model.session.ranges import RequestChain
from svc.ratelimit.limits import Rate
from svc.rpc.frames import data_frame, end_frame
from tests.kinds.served import tcp
from tests.proxy.pieces import ProxyTests, Talk
from tests.proxy.tagged import ANSWERS, REQUESTS, ReceivingEnd, SendingEnd

OPEN = b"\x0a"
"""How the first message of a stream begins."""

BEGUN = b"GET a\n", b"b\n"


async def passed(stream: IGatedStream) -> None:
    """Every line as it is."""
    while (line := await stream.until(b"\n", 64)) is not None:
        await stream.pass_on(len(line))


async def gate(session: IGatedSession) -> None:
    """Both directions, undecided."""
    await session.both(passed(session.requests), passed(session.answers))


class RequestRateTests(ProxyTests):
    """How many requests a person may make inside sessions."""

    def _begin(self) -> None:
        super()._begin()
        self.reasons: list[str] = []
        kinds: Any = self.site.sessions.gate.kinds
        kinds["tcp"] = evolve(tcp, opaque=False, gate=self.asks)

    async def asks(self, session: IGatedSession) -> None:
        """Ask for three decisions."""
        for _ in range(3):
            self.reasons.append((await session.decide("tcpConnect", {})).reason)
        await gate(session)

    def test_too_many(self) -> None:
        """Those of all the person's sessions count; what is over budget is counted and denied."""
        self.site.person_rates.requests.buckets.rate = Rate(per_minute=1, burst=4)
        node = self.site.node()
        for _ in range(2):
            self.site.open(half=bytes(32))
            node.carry(node.last(OpenNotice))
        over = [one == "too_many_requests" for one in self.reasons]
        self.assertEqual(over, [False, False, False, False, True, True])
        self.assertEqual(self.site.counts[("budget", "requests")], 2)


class GivenUpTests(ProxyTests):
    """A gate that does not wait for a decision that it asked for."""

    def _begin(self) -> None:
        super()._begin()
        self.after: list[RequestVerdict] = []
        self.durable: list[Deferred[None]] = []
        kinds: Any = self.site.sessions.gate.kinds
        kinds["tcp"] = evolve(tcp, opaque=False, gate=self.gives_up)
        self.site.sessions.record = self.record

    def record(self, *_: Any) -> Deferred[None]:
        """It is on the disk once the test says so."""
        self.durable.append(Deferred())
        return self.durable[-1]

    async def gives_up(self, session: IGatedSession) -> None:
        """Cancel one decision, and ask for another."""
        first = Deferred.fromCoroutine(session.decide("tcpConnect", {}))
        first.addErrback(lambda _: None)
        first.cancel()
        self.after.append(await session.decide("tcpConnect", {}))
        await gate(session)

    def test_session_ends(self) -> None:
        """Its record may be written all the same, so no number after it would be right."""
        node = self.site.node()
        client = self.site.open(half=bytes(32))
        carry = node.carry(node.last(OpenNotice))
        self.site.turn()
        [verdict] = self.after
        self.assertEqual((verdict.allowed, verdict.reason), (False, "not_recorded"))
        self.assertEqual(len(self.durable), 1)
        self.assertTrue(client.is_over)
        self.assertTrue(carry.is_over)


class GatedEndTests(ProxyTests):
    """Neither side waits for the other once one is gone, and each hears how."""

    def _begin(self) -> None:
        super()._begin()
        kinds: Any = self.site.sessions.gate.kinds
        kinds["tcp"] = evolve(tcp, opaque=False, gate=gate)

    def passing(self) -> tuple[Talk, Talk]:
        """The person's call and the Connector's; half a request and half an answer are held."""
        node = self.site.node()
        client = self.site.open(half=bytes(32))
        carry = node.carry(node.last(OpenNotice))
        self.person, self.connector = SendingEnd(REQUESTS), SendingEnd(ANSWERS)
        client.say(self.person.data(b"GET a\nGET"))
        carry.say(self.connector.data(b"b\n"))
        self.site.turn()
        self.assertEqual((self.passed(carry, REQUESTS), self.passed(client, ANSWERS)), BEGUN)
        return client, carry

    def passed(self, talk: Talk, key: bytes) -> bytes:
        """What an end may pass on of what it was sent."""
        end = ReceivingEnd(key, chain=RequestChain("1" * 32) if key is REQUESTS else None)
        for message in talk.heard:
            if not message.startswith(OPEN):
                end.take(message)
        return end.heard

    def assertEnded(self, word: str) -> None:
        self.assertEqual([one.reason for one in self.authority.ended], [word])
        self.assertEqual(self.site.gauges[("sessions",)], 0)

    def test_the_connector_breaks_it(self) -> None:
        """Its word is what the person hears, and no end of bytes before; Authority hears it too."""
        for word in ("grant_ended", "connector_stopping", "broken"):
            client, carry = self.passing()
            carry.say(end_frame(SessionOver(word)))
            carry.stream.end()
            self.site.turn()
            self.assertEqual((client.is_over, client.reason), (True, word))
            self.assertEqual(self.passed(client, ANSWERS), b"b\n")
            self.assertTrue(carry.is_over)
            self.assertEnded(word)
            self.again()

    def test_the_target_closes(self) -> None:
        """Its last answers arrive, and the person's half request is no fault."""
        client, carry = self.passing()
        carry.say(self.connector.data(b"bye\n"))
        carry.say(self.connector.eof())
        carry.say(end_frame(SessionOver("target_closed")))
        carry.stream.end()
        self.site.turn()
        self.assertEqual((client.is_over, client.error), (True, None))
        self.assertEqual(self.passed(client, ANSWERS), b"b\nbye\n")
        self.assertTrue(carry.is_over)
        self.assertEnded("target_closed")

    def test_the_person_closes(self) -> None:
        """The session does not stand until the target closes too."""
        client, carry = self.passing()
        client.say(self.person.data(b" c\n"))
        client.say(self.person.eof())
        client.stream.end()
        self.site.turn()
        self.assertEqual((carry.is_over, carry.error), (True, None))
        self.assertEqual(self.passed(carry, REQUESTS), b"GET a\nGET c\n")
        self.assertTrue(client.is_over)
        self.assertEnded("closed")

    def test_the_person_is_lost(self) -> None:
        """A reset is one at both sides."""
        client, carry = self.passing()
        client.stream.cancel()
        self.site.turn()
        self.assertNotEqual(carry.reason, "")
        self.assertEnded("cancelled")

    def test_an_end_finds_a_fault(self) -> None:
        """What either end says was wrong is the reason of the session's end."""
        for which, word in enumerate(("frame_altered", "peer_silent")):
            both = self.passing()
            both[which].say(end_frame(SessionOver(word)))
            both[which].stream.end()
            self.site.turn()
            self.assertTrue(both[0].is_over)
            self.assertTrue(both[1].is_over)
            self.assertEnded(word)
            self.again()

    def test_a_frame_without_a_tag(self) -> None:
        """A Proxy that is no party to it passes nothing on that has no tag."""
        client, carry = self.passing()
        client.say(data_frame(b" c\n"))
        self.site.turn()
        self.assertEqual(self.passed(carry, REQUESTS), b"GET a\n")
        self.assertTrue(carry.is_over)
        self.assertNotEqual(carry.reason, "")
        self.assertTrue(client.is_over)
        self.assertEqual(len(self.authority.ended), 1)
