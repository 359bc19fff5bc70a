"""A Proxy keeps the greatest signed head, and leaves an Authority that is behind it."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.head import to_line
from svc.audit.checkpoint.latest import LatestCheckpoint
from svc.errors import SvcError
from svc.messages.session import LIST_METHOD, encode_list_request
from svc.proto.gate.v1 import session_pb2
from svc.proxy.uplink.heads import LAG_SECS, KnownCheckpoints
from tests.audit.logs import MemoryLog, heads_over, short_record, verify_head
from tests.proxy.pieces import ProxyTests, Talk


class HeadsCase(SynchronousTestCase):
    """A log of twelve records."""

    def setUp(self) -> None:
        self.clock: Any = Clock()
        self.log = MemoryLog()
        self.log.fill(12, short_record)
        self.signed = heads_over(self.log.log, 3, 8, 12, hours=1)
        self.lines = [to_line(head) for head in self.signed]
        self.went_on: list[str] = []
        self.refusing = False
        latest_checkpoint = LatestCheckpoint(
            path=Path(self.mktemp()), verify_head=verify_head, cluster="demo.example", log_id="log"
        )
        self.heads = KnownCheckpoints(latest_checkpoint, self.clock, self.goes_on)

    def goes_on(self, restoration: str) -> None:
        if self.refusing:
            raise SvcError("the disk is full")
        if restoration not in self.went_on:
            self.went_on.append(restoration)

    def done(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.successResultOf(Deferred.fromCoroutine(coroutine))

    def refused(self, coroutine: Coroutine[Any, Any, Any]) -> str:
        failure = self.failureResultOf(Deferred.fromCoroutine(coroutine), SvcError)
        return str(failure.value.reason)


class AuditHeadsTests(HeadsCase):
    """What a Proxy does with heads."""

    def test_told(self) -> None:
        """What Authority tells is kept, told back to it, and handed on to clients."""
        self.assertEqual((self.heads.line, self.heads.lines), (b"", ()))
        self.done(self.heads.take(self.lines[:2]))
        self.assertEqual((self.heads.line, self.heads.lines), (self.lines[1], (self.lines[1],)))
        self.done(self.heads.take(()))

    def test_a_disk_that_refuses(self) -> None:
        """A head that cannot be kept ends no connection; no session begins until it is kept."""
        path = self.heads.latest_checkpoint.path
        path.mkdir()
        self.done(self.heads.take(self.lines[:1]))
        refused = self.assertRaises(SvcError, self.heads.check)
        self.assertEqual(refused.reason, "audit_unavailable")
        self.done(self.heads.mend())
        self.assertRaises(SvcError, self.heads.check)
        path.rmdir()
        self.done(self.heads.mend())
        self.heads.check()
        self.assertEqual(self.heads.line, self.lines[0])

    def test_behind(self) -> None:
        """An Authority may be behind for a while, as one that does not write; then it is left."""
        self.done(self.heads.take(self.lines[2:]))
        self.done(self.heads.take(self.lines[:1]))
        self.clock.advance(LAG_SECS - 1)
        self.done(self.heads.take(self.lines[1:2]))
        self.done(self.heads.take(self.lines[2:]))
        self.clock.advance(LAG_SECS)
        self.done(self.heads.take(self.lines[:1]))
        self.clock.advance(LAG_SECS)
        self.assertEqual(self.refused(self.heads.take(self.lines[:1])), "audit_rolled_back")
        self.done(self.heads.take(self.lines[:1]))
        self.assertEqual(self.heads.line, self.lines[2])

    def test_two_histories(self) -> None:
        """An Authority with other records under as many is left at once."""
        self.done(self.heads.take(self.lines))
        other = MemoryLog(drawn=99)
        other.fill(12, short_record)
        (forked,) = heads_over(other.log, 12)
        self.assertEqual(self.refused(self.heads.take([to_line(forked)])), "audit_rolled_back")

    def test_restored(self) -> None:
        """By the record's proof the Proxy goes back, and so do its policies; clients get it too."""
        self.done(self.heads.take(self.lines))
        proof = to_line(self.log.go_on(8, self.signed[2], hours=100))
        self.log.fill(2, short_record)
        (later,) = heads_over(self.log.log, 11, begin=101)
        self.done(self.heads.take([proof, to_line(later)]))
        self.assertEqual(len(self.went_on), 1)
        self.assertEqual(self.heads.lines, (proof, to_line(later)))
        self.done(self.heads.take([proof, to_line(later)]))
        self.assertEqual((len(self.went_on), len(self.heads.lines)), (1, 2))

    def test_restored_and_not_put_back(self) -> None:
        """What could not go back with the log does so with the next head that comes."""
        self.done(self.heads.take(self.lines))
        proof = to_line(self.log.go_on(8, self.signed[2], hours=100))
        self.log.fill(2, short_record)
        (later,) = heads_over(self.log.log, 11, begin=101)
        self.refusing = True
        self.refused(self.heads.take([proof]))
        self.refusing = False
        self.done(self.heads.take([to_line(later)]))
        self.assertEqual(len(self.went_on), 1)

    def test_clients(self) -> None:
        """A client's greater head is kept like Authority's own; whatever else it says is not."""
        self.done(self.heads.take(self.lines[:1]))
        forged = evolve(self.signed[2], signed=evolve(self.signed[2].signed, signature=b"x" * 64))
        (foreign,) = heads_over(self.log.log, 12, log_id="else")
        for line in (b"", b"rubbish", to_line(forged), to_line(foreign)):
            self.done(self.heads.receive_head(line))
        self.assertEqual(self.heads.line, self.lines[0])
        self.done(self.heads.receive_head(self.lines[2]))
        self.assertEqual(self.heads.line, self.lines[2])


class AtTheProxyTests(ProxyTests, HeadsCase):
    """The Proxy's two ends: Authority's, and a client's."""

    def setUp(self) -> None:
        HeadsCase.setUp(self)
        ProxyTests.setUp(self)
        self.site.link.head = lambda: self.heads.line
        self.site.listings.heads = lambda: self.heads.lines
        self.site.listings.receive_head = self.heads.receive_head

    def listed(self, head: bytes = b"") -> Talk:
        wire = self.site.connect(self.site.cluster.person)
        talk = Talk(wire.channel.stream(LIST_METHOD))
        talk.say(encode_list_request(head))
        self.site.turn()
        return talk

    def heard(self, talk: Talk) -> list[bytes]:
        return list(session_pb2.SessionListing.FromString(talk.heard[-1]).audit_heads)

    def test_greeting(self) -> None:
        """Each greeting tells Authority the greatest head that is kept here."""
        self.assertEqual(self.authority.shown, [b""])
        self.done(self.heads.take(self.lines))
        self.site.lose_authority()
        self.authority.is_up = True
        self.site.pass_time(6)
        self.assertEqual(self.authority.shown[-1], self.lines[2])

    def test_frames(self) -> None:
        """What comes with a frame is seen before the frame is taken."""
        seen: list[tuple[bytes, ...]] = []
        take = self.site.link.take

        async def taken(frame: Any) -> None:
            seen.append(frame.heads)
            await take(frame)

        self.site.link.take = taken
        self.authority.publish(evolve(self.authority.frame(), heads=tuple(self.lines)))
        self.site.turn()
        self.assertEqual(seen, [tuple(self.lines)])

    def test_client(self) -> None:
        """A client is told the head with its list, once, and its own is heard."""
        self.done(self.heads.take(self.lines[:1]))
        self.assertEqual(self.heard(self.listed()), [self.lines[0]])
        talk = self.listed(self.lines[2])
        self.assertEqual(self.heard(talk), [self.lines[2]])
        self.authority.publish(self.authority.frame(self.authority._bundle(("db1",), revision=8)))
        self.site.turn()
        self.site.pass_time(0.3)
        self.assertEqual((len(talk.heard), self.heard(talk)), (2, []))
