"""A gated session through a Proxy, and how it ends."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.interfaces.gating import IGatedSession, IGatedStream
from svc.model.session.ending import SessionOver
from svc.rpc.frames import EOF, data_frame, end_frame
from tests.kinds.served import tcp
from tests.proxy.pieces import ProxyTests, Talk


async def passed(stream: IGatedStream) -> None:
    """Every line as it is."""
    while (line := await stream.until(b"\n", 64)) is not None:
        await stream.pass_on(len(line))


async def gate(session: IGatedSession) -> None:
    """Both directions, undecided."""
    await session.both(passed(session.requests), passed(session.answers))


class GatedEndTests(ProxyTests):
    """Neither side waits for the other once one is gone, and each hears how."""

    def _begin(self) -> None:
        super()._begin()
        kinds: Any = self.site.sessions.gate.kinds
        kinds["tcp"] = evolve(tcp, opaque=False, gate=gate)

    def passing(self) -> tuple[Talk, Talk]:
        """The person's call and the Connector's; half a request and half an answer are held."""
        _, client, carry = self.carried()
        client.say(data_frame(b"GET a\nGET"))
        carry.say(data_frame(b"b\n"))
        self.site.turn()
        self.assertEqual((carry.data, client.data), (b"GET a\n", b"b\n"))
        return client, carry

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
            self.assertNotIn(bytes(EOF), client.heard)
            self.assertTrue(carry.is_over)
            self.assertEnded(word)
            self.again()

    def test_the_target_closes(self) -> None:
        """Its last answers arrive, and the person's half request is no fault."""
        client, carry = self.passing()
        carry.say(data_frame(b"bye\n"))
        carry.say(end_frame(SessionOver("target_closed")))
        carry.stream.end()
        self.site.turn()
        self.assertEqual((client.data, client.is_over, client.error), (b"b\nbye\n", True, None))
        self.assertTrue(carry.is_over)
        self.assertEnded("target_closed")

    def test_the_person_closes(self) -> None:
        """The session does not stand until the target closes too."""
        client, carry = self.passing()
        client.say(data_frame(b" c\n"))
        client.stream.end()
        self.site.turn()
        self.assertEqual((carry.data, carry.is_over, carry.error), (b"GET a\nGET c\n", True, None))
        self.assertTrue(client.is_over)
        self.assertEnded("closed")

    def test_the_person_is_lost(self) -> None:
        """A reset is one at both sides."""
        client, carry = self.passing()
        client.stream.cancel()
        self.site.turn()
        self.assertNotEqual(carry.reason, "")
        self.assertEnded("cancelled")
