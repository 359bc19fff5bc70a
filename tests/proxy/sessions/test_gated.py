"""What a gate is given: streams that hold, and decisions that are recorded or denied."""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.kind_events import kind_events
from svc.audit.spool.spool import Spool
from svc.errors import Denied, Malformed, SvcError, TooMany, Unavailable
from svc.interfaces.gating import IGatedSession, RequestVerdict
from svc.interfaces.kinds import KindEvent
from svc.messages.access import ApprovalForRequests
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.session.edits import MAX_VALUE_CHARACTERS
from svc.model.session.frames import MAX_FRAMES_HELD, TaggedKind
from svc.model.session.gated import GateNote
from svc.model.session.ranges import (
    RangeDecision,
    RequestChain,
    RequestRange,
    first_head,
    next_head,
)
from svc.proxy.sessions.gated import (
    GatedOpen,
    GatedRequest,
    GatedSession,
    Recordable,
)
from svc.proxy.sessions.gated_stream import MAX_HELD, GatedStream
from svc.proxy.sessions.recording import as_record, recording
from svc.proxy.sessions.watched import WatchedRequests
from svc.rpc.frames import note_part, parse_tagged
from svc.runtime.threads import inline
from tests.audit.spools import ORIGIN, FaultyDisk, entropy, files
from tests.connector.pieces import Cluster
from tests.kinds.served import tcp
from tests.proxy.tagged import REQUESTS, ReceivingEnd, SendingEnd
from tests.support.nothing import nothing

EDITS = {"refuse": lambda came, values: b"<" + came + b" " + values["why"].encode() + b">"}


class Out:
    """The other side's transport, and the end that it leads to."""

    def __init__(self) -> None:
        self.end = ReceivingEnd(REQUESTS, EDITS)
        self.messages = 0

    @property
    def said(self) -> bytes:
        """What may be passed on at the other end."""
        return self.end.heard

    def pass_on(self, message: bytes) -> None:
        self.messages += 1
        self.end.take(message)

    def note(self, note: GateNote, message: bytes | None = None) -> None:
        self.pass_on(note_part(note) + (message or b""))


class Fed(GatedStream):
    """A stream that a test gives bytes, as its sender would."""

    def __init__(self) -> None:
        super().__init__()
        self.sender = SendingEnd(REQUESTS)

    def feed(self, data: bytes) -> None:
        self.frame(self.sender.data(data))

    def frame(self, message: bytes) -> None:
        self.frame_received(parse_tagged(message), message)


def streaming() -> tuple[Fed, StringTransport, Out]:
    """A stream, where it reads from, and where it writes to."""
    stream, transport, out = Fed(), StringTransport(), Out()
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
            stream.feed(piece)
        self.assertEqual((line, out.said, out.messages), ([b"one\n"], b"", 0))
        so_far(stream.pass_on(4))
        self.assertEqual((out.said, out.messages), (b"one\n", 2))
        stream.edit(4, "refuse", {"why": "w"})
        self.assertEqual(out.said, b"one\n<two\n w>")
        self.assertEqual((stream.held, stream.passed), (b"rest", 8))
        self.assertRaises(ValueError, stream.edit, 5, "refuse", {})

    def test_inserted(self) -> None:
        """An insertion needs no byte, and stands between those that were passed on."""
        stream, _, out = streaming()
        stream.insert("refuse", {"why": "w"})
        stream.feed(b"one")
        so_far(stream.pass_on(3))
        stream.insert("refuse", {"why": "v"})
        self.assertEqual((out.said, stream.passed), (b"< w>one< v>", 3))

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
                stream.feed(piece)
            self.assertEqual(line, [found])

    def test_some(self) -> None:
        """Whatever has come is there to look at; at the end there is nothing."""
        stream, _, _ = streaming()
        some = so_far(stream.some())
        self.assertEqual(some, [])
        stream.feed(b"ab")
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
        stream.feed(b"ab")
        self.assertEqual(three, [])
        stream.feed(b"cd")
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
        stream.feed(b"x")
        stream.edit(1, "refuse", {"why": "p" * (MAX_VALUE_CHARACTERS + 1)})
        self.assertEqual(out.said, b"<x " + b"p" * MAX_VALUE_CHARACTERS + b">")

    def test_what_is_still_to_come_passes_as_it_comes(self) -> None:
        """A long answer is not held whole, and is passed by one note."""
        stream, _, out = streaming()
        passing = so_far(stream.pass_on(6))
        stream.feed(b"abc")
        self.assertEqual((passing, out.said), ([], b"abc"))
        stream.feed(b"defg")
        self.assertEqual((passing, out.said, stream.held), ([None], b"abcdef", b"g"))
        self.assertEqual(out.messages, 2)

    def test_a_frame_goes_on_with_its_first_byte(self) -> None:
        """What of it is not decided waits at the other end; the next frame waits here."""
        stream, _, out = streaming()
        stream.feed(b"onetwo")
        stream.feed(b"three")
        so_far(stream.pass_on(3))
        self.assertEqual((out.said, out.messages, out.end.receiver.received), (b"one", 1, 6))
        so_far(stream.pass_on(3))
        self.assertEqual((out.said, out.messages), (b"onetwo", 2))
        so_far(stream.pass_on(5))
        self.assertEqual((out.said, out.messages), (b"onetwothree", 3))

    def test_urgent(self) -> None:
        """A heartbeat and a cancel overtake what waits for the gate."""
        stream, _, out = streaming()
        stream.feed(b"waits")
        stream.frame(stream.sender.urgent(TaggedKind.HEARTBEAT))
        stream.frame(stream.sender.urgent(TaggedKind.CANCEL))
        self.assertEqual(out.end.urgent, [TaggedKind.HEARTBEAT, TaggedKind.CANCEL])
        self.assertEqual(out.said, b"")

    def test_out_of_place(self) -> None:
        """A frame that does not follow is refused here: the gate's offsets would be wrong."""
        stream, _, _ = streaming()
        stream.sender.data(b"lost")
        with self.assertRaises(Malformed) as caught:
            stream.feed(b"x")
        self.assertEqual(caught.exception.reason, "frame_order")

    def test_too_many_short_frames(self) -> None:
        """They are not read on past a number, and a gate that waits for more ends the session."""
        stream, transport, _ = streaming()
        line = so_far(stream.until(b"\n", MAX_HELD))
        for _ in range(MAX_FRAMES_HELD // 2):
            stream.feed(b"x")
        self.assertEqual(transport.producerState, "paused")
        self.assertIsInstance(line[0].value, Malformed)

    def test_too_long(self) -> None:
        """Without its mark, no more is looked at than the gate allows."""
        stream, _, _ = streaming()
        line = so_far(stream.until(b"\n", 4))
        stream.feed(b"abcd\n")
        self.assertIsInstance(line[0].value, Malformed)

    def test_longer_than_is_ever_held(self) -> None:
        """A gate that allows more than a stream holds is refused it, and waits for nothing."""
        stream, _, _ = streaming()
        line = so_far(stream.until(b"\n", 2 * MAX_HELD))
        for _ in range(4):
            stream.feed(b"x" * (MAX_HELD // 4))
        self.assertIsInstance(line[0].value, Malformed)

    def test_a_negative_length(self) -> None:
        """A length that a peer wrote ends its session, and keeps nobody else waiting."""
        stream, _, out = streaming()
        stream.feed(b"$-100\r\n")
        self.assertIsInstance(so_far(stream.pass_on(-91))[0].value, Malformed)
        self.assertEqual((out.said, stream.held), (b"", b"$-100\r\n"))

    def test_the_end(self) -> None:
        """Between requests it is the end; amid one it is an error, also where bytes were owed."""
        stream, _, _ = streaming()
        line = so_far(stream.until(b"\n", 9))
        stream.frame(stream.sender.eof())
        self.assertEqual(line, [None])
        self.assertIsInstance(so_far(stream.pass_on(1))[0].value, Malformed)
        stream, _, _ = streaming()
        stream.feed(b"half")
        line = so_far(stream.until(b"\n", 9))
        stream.frame(stream.sender.eof())
        self.assertIsInstance(line[0].value, Malformed)

    def test_the_end_is_passed_on(self) -> None:
        """As it came, once the gate is done; a gate that is done before says that it cuts."""
        stream, _, out = streaming()
        stream.frame(stream.sender.eof())
        stream.close()
        self.successResultOf(stream.finished)
        self.assertEqual((out.end.receiver.has_ended, out.end.is_closed), (True, False))
        stream, _, out = streaming()
        stream.feed(b"undecided")
        stream.close()
        self.successResultOf(stream.finished)
        self.assertEqual((out.end.receiver.has_ended, out.end.is_closed), (False, True))
        stream.feed(b"more")
        self.assertEqual(out.said, b"")

    def test_a_slow_gate_holds_the_sender(self) -> None:
        """Past its limit it is not read, nor while the other side cannot write."""
        stream, transport, _ = streaming()
        for _ in range(4):
            stream.feed(b"x" * (MAX_HELD // 4))
        self.assertEqual(transport.producerState, "paused")
        stream.pauseProducing()
        so_far(stream.pass_on(1))
        self.assertEqual(transport.producerState, "paused")
        stream.resumeProducing()
        self.assertEqual(transport.producerState, "producing")

    def test_room(self) -> None:
        """A gate that inserts waits for whoever it inserts for, until that one is gone."""
        stream, _, _ = streaming()
        self.assertEqual(so_far(stream.room()), [None])
        stream.pauseProducing()
        waiting, other = so_far(stream.room()), so_far(stream.room())
        self.assertEqual((waiting, other), ([], []))
        stream.resumeProducing()
        self.assertEqual((waiting, other), ([None], [None]))
        stream.pauseProducing()
        gone = so_far(stream.room())
        stream.give_up()
        self.assertEqual(gone, [None])


class DecideTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.written: list[Recordable] = []
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
            watched=WatchedRequests(lambda action, facts, approved: self.word == "allow"),
            elsewhere=self.elsewhere,
        )

    async def elsewhere(self, work: str, data: bytes, person: str) -> bytes:
        return f"{work} {person} ".encode() + data

    def test_apart(self) -> None:
        """A gate's dangerous work is done where the Proxy does it, on the person's behalf."""
        doing = Deferred.fromCoroutine(self.session.apart("a:b", b"c"))
        self.assertEqual(self.successResultOf(doing), b"a:b " + b"p" * 26 + b" c")

    def test_watched(self) -> None:
        """A request under way may go on as long as the policy allows it, and nobody asks later."""
        over = self.session.watch(RequestVerdict(True, "d1"), "redisRead", {})
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

    def says(self, stream: GatedStream, data: bytes) -> None:
        frame = SendingEnd(REQUESTS).data(data)
        stream.frame_received(parse_tagged(frame), frame)

    def test_either(self) -> None:
        """The end of one direction is the session's: the other waits no longer, both are closed."""
        over, person, target = self.serving()
        self.assertEqual(over, [])
        self.says(self.session.answers, b"bye\n")
        self.assertEqual((over, person.end.is_closed, target.end.is_closed), ([None], True, True))

    def test_either_breaks(self) -> None:
        """What breaks one direction breaks the session."""
        over, person, _ = self.serving()
        self.says(self.session.requests, b"too long a line")
        self.assertIsInstance(over[0].value, Malformed)
        self.assertFalse(person.end.is_closed)

    def decides(
        self,
        opened: GatedOpen,
        action: str,
        facts: Any,
        found: ApprovalForRequests | None = None,
        text: bytes = b"",
    ) -> GatedRequest:
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

    async def write(self, decided: Recordable, uid: str) -> None:
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

    def test_over_budget(self) -> None:
        """Who makes too many requests is denied without a decision and without a record."""

        def spend() -> None:
            raise TooMany("too many requests (requests)", retry_after=1.0)

        self.session.spend = spend
        self.deciding = RuntimeError("it is not asked")
        (verdict,) = self.verdict()
        self.assertEqual((verdict.allowed, verdict.reason), (False, "too_many_requests"))
        self.assertEqual(self.written, [])

    def test_numbered(self) -> None:
        """Each has the next number and its range, and is announced in that order, once durable."""
        out = Out()
        out.end = ReceivingEnd(REQUESTS, EDITS, RequestChain("1" * 32))
        said: list[GateNote] = []
        pass_note = out.note
        out.note = lambda note, message=None: said.append(note) or pass_note(note, message)  # type: ignore[func-returns-value,method-assign]
        stream = self.session.requests
        stream.out = out  # type: ignore[assignment]
        sender = SendingEnd(REQUESTS)
        for text in (b"one\n", b"two\nthree\n"):
            frame = sender.data(text)
            stream.frame_received(parse_tagged(frame), frame)
        first = self.writing = Deferred()
        earlier = so_far(self.session.decide("redisRead", {}, 4))
        so_far(self.session.requests.pass_on(0))
        second = self.writing = Deferred()
        self.word = "deny"
        later = so_far(self.session.decide("redisRead", {}, 4))
        self.assertEqual(([len(earlier), len(later)], out.messages), ([0, 0], 0))
        first.callback(None)
        second.callback(None)
        ranges = []
        for n, one in enumerate(self.written, 1):
            assert isinstance(one, GatedRequest)
            assert one.range is not None
            assert one.frames is not None
            size = one.range[1] - one.range[0]
            ranges.append(RequestRange(n=n, offset=one.range[0], size=size, tags=one.frames))
        self.assertEqual([(one.offset, one.size) for one in ranges], [(0, 4), (0, 4)])
        # Both are about one request, so the Connector refuses the second.
        self.assertRaises(Malformed, stream.edit, 4, "refuse", {"why": "w"})
        self.assertEqual(
            [(one.n, one.allowed) for one in said[0].decisions], [(1, True), (2, False)]
        )

    def test_chained(self) -> None:
        """The Connector's chain is the one that the records make."""
        out = Out()
        out.end = ReceivingEnd(REQUESTS, EDITS, RequestChain("1" * 32))
        stream = self.session.requests
        stream.out = out  # type: ignore[assignment]
        frame = SendingEnd(REQUESTS).data(b"one\ntwo\n")
        stream.frame_received(parse_tagged(frame), frame)
        so_far(self.session.decide("redisRead", {}, 4))
        so_far(stream.pass_on(4))
        so_far(self.session.refuse("redisRead", {}, 4, "unknown"))
        stream.edit(4, "refuse", {"why": "w"})
        head = first_head("1" * 32)
        for n, one in enumerate(self.written, 1):
            assert isinstance(one, GatedRequest)
            assert one.range is not None
            assert one.frames is not None
            range_ = RequestRange(n=n, offset=one.range[0], size=4, tags=one.frames)
            head = next_head(head, range_, allowed=n == 1)
        assert isinstance(one, GatedRequest)
        self.assertEqual((one.decision, one.policies, one.reason), ("deny", (), "unknown"))
        chain = out.end.receiver.chain
        assert chain is not None
        self.assertEqual((chain.count, out.said), (2, b"one\n<two\n w>"))
        self.assertEqual(chain.head, head)

    def test_a_number_is_used_once_recorded(self) -> None:
        """A request that could not be recorded leaves no gap."""
        self.writing = Deferred()
        got = self.verdict()
        self.writing.errback(SvcError("full", reason="audit_spool_full"))
        self.assertFalse(got[0].allowed)
        self.writing = None
        self.verdict()
        (written,) = self.written
        assert isinstance(written, GatedRequest)
        self.assertEqual(written.range, (0, 0))

    def test_refused_together(self) -> None:
        """Requests that one write refuses leave no gap either; the next has its record's number."""
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        disk, clock = FaultyDisk(), Clock()
        held = files(Path(directory) / "spool", disk)
        self.assertIsNone(held.open())
        spool = Spool(held, inline, committed=nothing, has_room=nothing, clock=clock)
        self.session.write = recording(spool, origin=ORIGIN, now=lambda: 1.0, entropy=entropy)
        announced: list[RangeDecision] = []

        def announce(decision: RangeDecision) -> None:
            announced.append(decision)

        self.session.requests.announce = announce  # type: ignore[method-assign]
        disk.errors["sync"] = OSError(errno.ENOSPC, "no")
        refused = [self.verdict() for _ in range(3)]
        clock.advance(0)
        self.assertEqual([one.reason for [one] in refused], ["audit_spool_full"] * 3)
        passed = [self.verdict() for _ in range(2)]
        clock.advance(0)
        self.assertEqual([one.allowed for [one] in passed], [True] * 2)
        self.assertEqual([one.n for one in announced], [1, 2])
        self.assertEqual(self.opened.numbers.ahead, 2)

    def test_a_share_of_the_spool(self) -> None:
        """One person's requests fill their own share; others' are recorded, and so are ends."""
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        held = files(Path(directory) / "spool", FaultyDisk(), room=1 << 18)
        self.assertIsNone(held.open())
        spool = Spool(held, inline, committed=nothing, has_room=nothing, clock=Clock(), waits=False)
        write = recording(spool, origin=ORIGIN, now=lambda: 1.0, entropy=entropy)
        decided = self.decides(self.opened, "redisRead", {})

        async def recorded(decided: GatedRequest) -> None:
            waiting = write(decided, "1" * 32)
            if waiting is not None:
                await waiting

        got: list[Any] = [None]
        written = -1
        while got == [None]:
            got, written = so_far(recorded(decided)), written + 1
        self.assertEqual(got[0].value.reason, "audit_spool_full")
        self.assertGreater(written, 10)
        self.assertTrue(held.room.has_for_others)
        other = evolve(decided.request, principal=EntityUid("User", "v"))
        self.assertEqual(so_far(recorded(evolve(decided, request=other))), [None])

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
            eof = SendingEnd(REQUESTS).eof()
            stream.frame_received(parse_tagged(eof), eof)
        self.successResultOf(Deferred.fromCoroutine(self.session.both(done(), done())))
        self.assertEqual([out.end.receiver.has_ended for out in outs], [True, True])
        serving = Deferred.fromCoroutine(self.session.both(waits(), fails()))
        self.failureResultOf(serving, Malformed)
