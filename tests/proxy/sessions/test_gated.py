"""What a gate is given: streams that hold, and decisions that are recorded or denied."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.kind_events import kind_events
from svc.audit.spool.spool import Spool
from svc.errors import Denied, Malformed, SvcError, Unavailable
from svc.interfaces.gating import IGatedSession, RequestVerdict
from svc.interfaces.kinds import KindEvent
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.session.edits import MAX_VALUE_CHARACTERS, Edit, StreamEdits
from svc.proxy.sessions.gated import (
    GatedNote,
    GatedOpen,
    GatedRequest,
    GatedSession,
    as_record,
    recording,
)
from svc.proxy.sessions.gated_stream import MAX_HELD, GatedStream
from svc.proxy.sessions.watched import WatchedRequests
from svc.runtime.threads import inline
from tests.audit.spools import ORIGIN, FaultyDisk, entropy, files
from tests.connector.pieces import Cluster
from tests.kinds.served import tcp

ALLOWED = RequestVerdict(allowed=True, decision_id="d" * 32)


@define
class Out:
    """The other side's transport: what it was given, in order."""

    said: list[object] = field(factory=list)

    def write(self, data: bytes) -> None:
        self.said.append(data)

    def edit(self, edit: Edit) -> None:
        self.said.append(edit)

    def loseWriteConnection(self) -> None:
        self.said.append("end")


def streaming() -> tuple[GatedStream, StringTransport, Out]:
    """A stream, where it reads from, and where it writes to."""
    stream, transport, out = GatedStream(), StringTransport(), Out()
    stream.out = out  # type: ignore[assignment]
    stream.makeConnection(transport)
    return stream, transport, out


def so_far(doing: Any) -> list[Any]:
    """What something has come to so far."""
    got: list[Any] = []
    Deferred.fromCoroutine(doing).addBoth(got.append)
    return got


class StreamTests(SynchronousTestCase):
    def test_nothing_passes_by_itself(self) -> None:
        """Bytes are held until they are passed on or edited, and each is counted once."""
        stream, _, out = streaming()
        line = so_far(stream.until(b"\n", 9))
        for piece in (b"one", b"\ntw", b"o\nrest"):
            stream.dataReceived(piece)
        self.assertEqual((line, out.said), ([b"one\n"], []))
        so_far(stream.pass_on(4))
        stream.edit(4, "refuse", {"why": "w"})
        self.assertEqual(
            out.said,
            [b"one\n", Edit(offset=4, size=4, name="refuse", values={"why": "w"}), b"two\n"],
        )
        self.assertEqual((stream.held, stream.passed), (b"rest", 8))
        self.assertRaises(ValueError, stream.edit, 5, "refuse", {})

    def test_inserted(self) -> None:
        """An insertion needs no byte, and stands between those that were passed on."""
        stream, _, out = streaming()
        stream.insert("add", {"why": "w"})
        stream.dataReceived(b"one")
        so_far(stream.pass_on(3))
        stream.insert("add", {})
        first = Edit(offset=0, size=0, name="add", values={"why": "w"})
        second = Edit(offset=3, size=0, name="add", values={})
        self.assertEqual(out.said, [first, b"one", second])
        self.assertEqual(stream.passed, 3)

    def test_a_pattern(self) -> None:
        """A mark may be one of several, and is found across the pieces it came in."""
        mark = re.compile(rb"\r\n\r\n|(?<!\r)\n")
        for pieces, found in (
            ((b"a\r\nb\r\n\r\nc",), b"a\r\nb\r\n\r\n"),
            ((b"a\r", b"\nb\r\n\r", b"\nc"), b"a\r\nb\r\n\r\n"),
            ((b"a\r\nb", b"\nc\r\n\r\n"), b"a\r\nb\n"),
        ):
            stream, _, _ = streaming()
            line = so_far(stream.until(mark, 99))
            for piece in pieces:
                stream.dataReceived(piece)
            self.assertEqual(line, [found])

    def test_some(self) -> None:
        """Whatever has come is there to look at; at the end there is nothing."""
        stream, _, _ = streaming()
        some = so_far(stream.some())
        self.assertEqual(some, [])
        stream.dataReceived(b"ab")
        self.assertEqual((some, so_far(stream.some())), ([b"ab"], [b"ab"]))
        so_far(stream.pass_on(2))
        stream.readConnectionLost()
        self.assertEqual(so_far(stream.some()), [None])
        stream, _, _ = streaming()
        some = so_far(stream.some())
        stream.give_up()
        self.assertEqual(some, [b""])

    def test_at_least(self) -> None:
        """So many bytes are given once they are there; a stream that ends amid them is broken."""
        stream, _, _ = streaming()
        three = so_far(stream.at_least(3))
        stream.dataReceived(b"ab")
        self.assertEqual(three, [])
        stream.dataReceived(b"cd")
        self.assertEqual((three, so_far(stream.at_least(1))), ([b"abc"], [b"a"]))
        self.failureResultOf(Deferred.fromCoroutine(stream.at_least(MAX_HELD + 1)), Malformed)
        five = Deferred.fromCoroutine(stream.at_least(5))
        stream.readConnectionLost()
        self.failureResultOf(five, Malformed)
        so_far(stream.pass_on(4))
        self.assertEqual(so_far(stream.at_least(1)), [None])
        stream, _, _ = streaming()
        some = so_far(stream.at_least(1))
        stream.give_up()
        self.assertEqual(some, [None])

    def test_a_long_value(self) -> None:
        """A denial by many policies is shortened, and ends no session at the other end."""
        stream, _, out = streaming()
        stream.dataReceived(b"x")
        stream.edit(1, "denied", {"policies": "p" * (MAX_VALUE_CHARACTERS + 1)})
        (said, _) = out.said
        assert isinstance(said, Edit)
        StreamEdits({"denied": lambda came, values: came}).announce(said)

    def test_what_is_still_to_come_passes_as_it_comes(self) -> None:
        """A long answer is not held whole."""
        stream, _, out = streaming()
        passing = so_far(stream.pass_on(6))
        stream.dataReceived(b"abc")
        self.assertEqual((passing, out.said), ([], [b"abc"]))
        stream.dataReceived(b"defg")
        self.assertEqual((passing, out.said, stream.held), ([None], [b"abc", b"def"], b"g"))

    def test_too_long(self) -> None:
        """Without its mark, no more is looked at than the gate allows."""
        stream, _, _ = streaming()
        line = so_far(stream.until(b"\n", 4))
        stream.dataReceived(b"abcd\n")
        self.assertIsInstance(line[0].value, Malformed)

    def test_longer_than_is_ever_held(self) -> None:
        """A gate that allows more than a stream holds is refused it, and waits for nothing."""
        stream, _, _ = streaming()
        line = so_far(stream.until(b"\n", 2 * MAX_HELD))
        stream.dataReceived(b"x" * MAX_HELD)
        self.assertIsInstance(line[0].value, Malformed)

    def test_a_negative_length(self) -> None:
        """A length that a peer wrote ends its session, and keeps nobody else waiting."""
        stream, _, out = streaming()
        stream.dataReceived(b"$-100\r\n")
        self.assertIsInstance(so_far(stream.pass_on(-91))[0].value, Malformed)
        self.assertEqual((out.said, stream.held), ([], b"$-100\r\n"))

    def test_the_end(self) -> None:
        """Between requests it is the end; amid one it is an error, also where bytes were owed."""
        stream, _, _ = streaming()
        line = so_far(stream.until(b"\n", 9))
        stream.readConnectionLost()
        self.assertEqual(line, [None])
        self.assertIsInstance(so_far(stream.pass_on(1))[0].value, Malformed)
        stream, _, _ = streaming()
        stream.dataReceived(b"half")
        line = so_far(stream.until(b"\n", 9))
        stream.readConnectionLost()
        self.assertIsInstance(line[0].value, Malformed)

    def test_a_slow_gate_holds_the_sender(self) -> None:
        """Past its limit it is not read, nor while the other side cannot write."""
        stream, transport, _ = streaming()
        stream.dataReceived(b"x" * MAX_HELD)
        self.assertEqual(transport.producerState, "paused")
        stream.pauseProducing()
        so_far(stream.pass_on(1))
        self.assertEqual(transport.producerState, "paused")
        stream.resumeProducing()
        self.assertEqual(transport.producerState, "producing")


class DecideTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.written: list[GatedRequest | GatedNote] = []
        self.writing: Any = None
        self.deciding: Exception | None = None
        self.word = "allow"
        events = kind_events("tcp", {"tcp.odd": KindEvent("odd", {"size": "number public"})})
        self.opened = GatedOpen(
            request=Cluster().request(resource="cache"),
            kind=evolve(tcp, events=events),
            person_id="p" * 26,
            source_address="192.0.2.7",
        )
        self.session = GatedSession(
            opened=self.opened,
            ceiling={},
            decides=self.decides,
            write=self.write,
            entropy=bytes,
            watched=WatchedRequests(lambda action, facts: self.word == "allow"),
        )

    def test_watched(self) -> None:
        """A request under way may go on as long as the policy allows it, and nobody asks later."""
        over = self.session.watch("redisRead", {})
        self.session.watched.check()
        self.word = "deny"
        found = self.assertRaises(Denied, self.session.watched.check)
        self.assertEqual(found.reason, "policy_changed")
        over()
        self.session.watched.check()

    def serving(self) -> tuple[list[Any], Out, Out]:
        """Both directions, as long as either lasts: how it came out, and what each side heard."""
        session, person, target = self.session, Out(), Out()
        for stream, out in ((session.requests, target), (session.answers, person)):
            stream.out = out  # type: ignore[assignment]
            stream.makeConnection(StringTransport())
        said = [session.requests.until(b"\n", 9), session.answers.until(b"\n", 9)]
        return so_far(session.either(*said)), person, target  # type: ignore[arg-type]

    def test_either(self) -> None:
        """The end of one direction is the session's: the other waits no longer, both are closed."""
        over, person, target = self.serving()
        self.assertEqual(over, [])
        self.session.answers.dataReceived(b"bye\n")
        self.assertEqual((over, person.said, target.said), ([None], ["end"], ["end"]))

    def test_either_breaks(self) -> None:
        """What breaks one direction breaks the session."""
        over, person, _ = self.serving()
        self.session.requests.dataReceived(b"too long a line")
        self.assertIsInstance(over[0].value, Malformed)
        self.assertEqual(person.said, [])

    def decides(self, opened: GatedOpen, action: str, facts: Any) -> GatedRequest:
        self.assertIs(opened, self.opened)
        if self.deciding is not None:
            raise self.deciding
        request = AccessRequest(
            request_kind="db_query",
            principal=EntityUid("User", "u"),
            action=action,
            resource=EntityUid("RedisServer", "cache"),
            context=facts,
        )
        return GatedRequest(
            request=request,
            resource_kind="redis",
            decision=self.word,
            decision_id="d" * 32,
            policies=("p",),
            policy_version=1,
            entities_digest="e" * 64,
            reason="" if self.word == "allow" else "denied",
            source_address="",
            numbers=opened.numbers,
        )

    async def write(self, decided: GatedRequest | GatedNote, uid: str) -> None:
        self.assertEqual(uid, self.opened.request.session_uid)
        if self.writing is not None:
            await self.writing
        self.written.append(decided)

    def verdict(self) -> list[Any]:
        got: list[Any] = []
        Deferred.fromCoroutine(self.session.decide("redisRead", {})).addBoth(got.append)
        return got

    def noted(self, event: str, details: dict[str, Any]) -> list[Any]:
        got: list[Any] = []
        Deferred.fromCoroutine(self.session.record(event, details)).addBoth(got.append)
        return got

    def test_an_event_of_the_kind(self) -> None:
        """What came up is durable before the gate goes on, and says whose session it was."""
        self.writing = Deferred()
        details = {"size": 7, "proxy_id": "another", "source_address": "another"}
        got = self.noted("tcp.odd", details)
        self.assertEqual(got, [])
        self.writing.callback(None)
        self.assertEqual(got, [None])
        record = as_record(
            self.written[0],
            origin="o" * 26,
            session_uid="",
            now=1.0,
            entropy=lambda n: bytes(n),
        )
        self.assertEqual(
            record.details, {**details, "proxy_id": "o" * 26, "source_address": "192.0.2.7"}
        )
        self.assertEqual((record.actor.id, record.resource_kind), ("p" * 26, "tcp"))
        self.assertEqual(record.session_uid, self.opened.request.session_uid)

    def test_what_cannot_be_noted(self) -> None:
        """An event of another kind is none; one that is not durable is an error to the gate."""
        self.assertEqual(self.noted("session.start", {})[0].value.reason, "unknown_event")
        self.writing = Deferred()
        got = self.noted("tcp.odd", {})
        self.writing.errback(SvcError("full", reason="audit_spool_full"))
        self.assertEqual(got[0].value.reason, "audit_spool_full")

    def test_recorded_first(self) -> None:
        """The gate hears of a permission once its record is durable."""
        self.assertTrue(IGatedSession.providedBy(self.session))
        self.writing = Deferred()
        got = self.verdict()
        self.assertEqual(got, [])
        self.writing.callback(None)
        self.assertTrue(got[0].allowed)
        self.assertEqual(len(self.written), 1)

    def test_denied(self) -> None:
        """A denial is recorded too, and names what decided."""
        self.word = "deny"
        (verdict,) = self.verdict()
        self.assertEqual(
            (verdict.allowed, verdict.policies, verdict.reason), (False, ("p",), "denied")
        )
        self.assertEqual(len(self.written), 1)

    def test_what_cannot_be_decided_or_recorded(self) -> None:
        """An error while deciding, or a record that is not durable, is a denial with its reason."""
        self.deciding = Unavailable("no policy", reason="policy_stale")
        (verdict,) = self.verdict()
        self.assertEqual((verdict.allowed, verdict.reason), (False, "policy_stale"))
        self.deciding, self.writing = None, Deferred()
        got = self.verdict()
        self.writing.errback(SvcError("full", reason="audit_spool_full"))
        self.assertEqual((got[0].allowed, got[0].reason), (False, "audit_spool_full"))
        self.deciding, self.writing = RuntimeError("a bug"), None
        (verdict,) = self.verdict()
        self.assertEqual((verdict.allowed, verdict.reason), (False, "internal"))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_share_of_the_spool(self) -> None:
        """One person's requests fill their own share; others' are recorded, and so are ends."""
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        held = files(Path(directory) / "spool", FaultyDisk(), room=1 << 18)
        self.assertIsNone(held.open())
        spool = Spool(files=held, in_thread=inline, committed=lambda: None, has_room=lambda: None)
        write = recording(spool, origin=ORIGIN, now=lambda: 1.0, entropy=entropy)
        decided = self.decides(self.opened, "redisRead", {})
        got: list[Any] = [None]
        written = -1
        while got == [None]:
            got, written = so_far(write(decided, "1" * 32)), written + 1
        self.assertEqual(got[0].value.reason, "audit_spool_full")
        self.assertGreater(written, 10)
        self.assertTrue(held.room.has_for_others)
        other = evolve(decided.request, principal=EntityUid("User", "v"))
        self.assertEqual(so_far(write(evolve(decided, request=other), "2" * 32)), [None])

    def test_both(self) -> None:
        """Each direction is closed behind what served it; the first fault ends both."""

        async def done() -> None:
            pass

        async def fails() -> None:
            raise Malformed("no")

        async def waits() -> None:
            await Deferred()

        outs = []
        for stream in (self.session.requests, self.session.answers):
            outs.append(Out())
            stream.out = outs[-1]  # type: ignore[assignment]
        self.successResultOf(Deferred.fromCoroutine(self.session.both(done(), done())))
        self.assertEqual([out.said for out in outs], [["end"], ["end"]])
        serving = Deferred.fromCoroutine(self.session.both(waits(), fails()))
        self.failureResultOf(serving, Malformed)
