"""A Proxy that was taken over, in the middle of a gated session: rules R24 to R27.

What it does is ended at the end that finds it, and named.  What it may still do is in SECURITY.md.
"""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.messages.gated import decode_answer, encode_answer
from svc.model.policy.requested import COMMAND_OPTIONS
from svc.model.session.edits import Edit
from svc.model.session.ending import SessionOver
from svc.model.session.gated import GateNote
from svc.model.session.halves import new_half
from svc.model.session.ranges import RangeDecision
from svc.model.signing import Purpose, Signed
from svc.rpc.frames import EOF, data_frame, end_frame, parse_gated
from tests.proxy.tagged import SendingEnd
from tests.security.gated import ALL, HostileProxy

GET = b"GET a\n"
DROP = b"DROP b\n"


class GatedProxyTests(SynchronousTestCase):
    """Each test is one thing that such a Proxy tries."""

    def setUp(self) -> None:
        self.begin()
        self.addCleanup(lambda: self.proxy.stop())

    def begin(self, command_options: str = "") -> None:
        """A session that is open."""
        self.proxy = HostileProxy()
        self.proxy.dialer.command_options = command_options
        self.proxy.start()
        self.proxy.open()
        self.assertIsNone(self.proxy.person.lost)

    def again(self) -> None:
        """Another one."""
        self.proxy.stop()
        self.begin()

    def frames(self, *said: bytes) -> list[bytes]:
        """What the person says, each a frame, as it waits at the Proxy."""
        for one in said:
            self.proxy.say(one)
        frames = list(self.proxy.up)
        self.proxy.up.clear()
        self.assertEqual(len(frames), len(said))
        return frames

    def answers(self, *said: bytes) -> list[bytes]:
        """Likewise of the target."""
        for one in said:
            self.proxy.answer(one)
        frames = list(self.proxy.down)
        self.proxy.down.clear()
        return frames

    def passed(self, message: bytes) -> bytes:
        """A message with a note that passes all of it."""
        return self.proxy.note(GateNote(ALL), message)

    def ended_at_connector(self, reason: str, heard: bytes = b"") -> None:
        self.assertEqual(self.proxy.connector_reason, reason)
        self.assertEqual(self.proxy.target_heard, heard)

    def ended_at_person(self, reason: str, heard: bytes = b"") -> None:
        self.assertEqual(self.proxy.person_reason, reason)
        self.assertEqual(self.proxy.person.received, heard)

    def test_nothing_of_it(self) -> None:
        """Without any of it the session works, both ways, to its end."""
        self.proxy.say(GET)
        self.proxy.pass_all()
        self.proxy.answer(b"1\n")
        self.proxy.pass_all()
        self.assertEqual((self.proxy.target_heard, self.proxy.person.received), (GET, b"1\n"))
        self.proxy.person.transport.loseWriteConnection()
        self.proxy.turn()
        self.proxy.pass_all()
        self.assertTrue(self.proxy.kind.targets[-1].write_ended)

    # -- R24: bytes

    def test_injects(self) -> None:
        """Bytes of its own: without a tag, or with one that it made, to either end."""
        for message in (data_frame(DROP), SendingEnd(bytes(32)).data(DROP), b"\x52\x00", b"x"):
            reason = "frame_altered" if len(message) > 20 else "frame_untagged"
            self.proxy.to_connector(self.passed(message))
            self.ended_at_connector(reason)
            self.again()
            self.proxy.to_person(self.passed(message))
            self.ended_at_person(reason)
            self.again()

    def test_alters(self) -> None:
        """One bit, anywhere in a frame."""
        for at in (-1, -2, 3, 20, 25, 33):
            (frame,) = self.frames(GET)
            altered = bytearray(frame)
            altered[at] ^= 1
            self.proxy.to_connector(self.passed(bytes(altered)))
            self.assertIn(self.proxy.connector_reason, {"frame_altered", "frame_untagged"})
            self.assertEqual(self.proxy.target_heard, b"")
            self.again()
            (frame,) = self.answers(b"12345\n")
            altered = bytearray(frame)
            altered[at] ^= 1
            self.proxy.to_person(self.passed(bytes(altered)))
            self.assertIn(self.proxy.person_reason, {"frame_altered", "frame_untagged"})
            self.assertEqual(self.proxy.person.received, b"")
            self.again()

    def test_reorders_repeats_and_drops(self) -> None:
        """Exchanged, twice, or without one between."""
        for order, heard in (((1, 0), b""), ((0, 0), b"1\n"), ((0, 2), b"1\n"), ((2,), b"")):
            frames = self.frames(b"1\n", b"2\n", b"3\n")
            self.proxy.to_connector(*(self.passed(frames[at]) for at in order))
            self.ended_at_connector("frame_order", heard)
            self.again()
            frames = self.answers(b"1\n", b"2\n", b"3\n")
            self.proxy.to_person(*(self.passed(frames[at]) for at in order))
            self.ended_at_person("frame_order", heard)
            self.again()

    def test_turns_around(self) -> None:
        """A frame of the target's is none of the person's: each direction has a key."""
        (frame,) = self.answers(b"GET a\n")
        self.proxy.to_connector(self.passed(frame))
        self.ended_at_connector("frame_altered")

    def test_another_session(self) -> None:
        """A frame that the person sent in another session to the same resource."""
        (frame,) = self.frames(GET)
        self.again()
        self.proxy.to_connector(self.passed(frame))
        self.ended_at_connector("frame_altered")

    def test_ends_it_in_the_person_s_name(self) -> None:
        """An end of writing that the person did not tag, or the call's end without one."""
        self.proxy.to_connector(bytes(EOF))
        self.ended_at_connector("frame_untagged")
        self.assertFalse(self.proxy.kind.targets[-1].write_ended)
        self.again()
        self.proxy.to_connector(end_frame(SessionOver("closed")))
        self.ended_at_connector("frame_untagged")

    def test_cancels(self) -> None:
        """A heartbeat that is repeated; a cancel is tagged in the same way."""
        self.proxy.advance(30)
        (beat,) = self.proxy.up
        self.proxy.to_connector(beat, beat)
        self.ended_at_connector("frame_order")

    def test_an_edit_that_is_not_in_the_list(self) -> None:
        """Of requests and of answers; in the list, but of bytes that have passed; too large."""
        for edit in (Edit(0, 6, "rewrite"), evolve(Edit(0, 6, "deny"), values={"a": "x" * 2000})):
            (frame,) = self.frames(GET)
            self.proxy.to_connector(self.proxy.note(GateNote(6, (), (edit,)), frame))
            self.ended_at_connector("edit_refused")
            self.again()
            (frame,) = self.answers(b"12345\n")
            self.proxy.to_person(self.proxy.note(GateNote(6, (), (edit,)), frame))
            self.ended_at_person("edit_refused")
            self.again()
        (frame,) = self.frames(GET)
        self.proxy.to_connector(self.passed(frame))
        self.proxy.to_connector(self.proxy.note(GateNote(ALL, (), (Edit(0, 6, "deny"),))))
        self.ended_at_connector("edit_refused", GET)

    def test_words_a_command(self) -> None:
        """What the person is told to type ends as their own client says."""
        for options in ("", " --dir b"):
            self.proxy.stop()
            self.begin(options)
            (frame,) = self.answers(b"12345\n")
            edit = evolve(Edit(0, 6, "deny"), values={COMMAND_OPTIONS: "; rm -rf /"})
            self.proxy.to_person(self.proxy.note(GateNote(6, (), (edit,)), frame))
            self.assertEqual(self.proxy.person.received, f"NO{options}\n".encode())

    def test_fills_memory(self) -> None:
        """Frames that it sends and does not pass."""
        for frame in self.frames(*[bytes(65536)] * 3):
            self.proxy.to_connector(frame)
        self.ended_at_connector("decision_refused")

    # -- R24: keys

    def test_answers_for_the_connector(self) -> None:
        """With a key of its own: unsigned, signed by itself, or another session's answer."""
        proxy, half = self.proxy, new_half()

        def forged(answer: Signed) -> Signed:
            payload = encode_answer(evolve(decode_answer(answer.payload), half=half.public))
            return evolve(answer, payload=payload)

        def its_own(answer: Signed) -> Signed:
            payload = encode_answer(evolve(decode_answer(answer.payload), half=half.public))
            return proxy.cluster.proxy.sign(Purpose.SESSION_ANSWER, payload)

        def replayed(answer: Signed) -> Signed:
            payload = encode_answer(evolve(decode_answer(answer.payload), session_uid="2" * 32))
            return proxy.cluster.connector.sign(Purpose.SESSION_ANSWER, payload)

        for change, reason in (
            (forged, "bad_signature"),
            (its_own, "certificate_role"),
            (replayed, "answer_refused"),
            (lambda answer: None, "malformed"),
        ):
            proxy = HostileProxy()
            proxy.change_answer = change
            proxy.start()
            (failure,) = proxy.open()
            self.assertEqual(failure.value.reason, reason)
            proxy.stop()

    # -- R25: decisions

    def test_skips_a_number(self) -> None:
        """A decision that it does not tell the Connector of, and then tells of the next."""
        (frame,) = self.frames(GET)
        note = GateNote(ALL, (RangeDecision(2, 0, 6, allowed=True),))
        self.proxy.to_connector(self.proxy.note(note, frame))
        self.ended_at_connector("decision_refused")

    def test_passes_what_it_denied(self) -> None:
        """A denial on record, and the request passed all the same, or the half of it."""
        denied = RangeDecision(1, 0, 7, allowed=False)
        for edits in ((), (Edit(0, 4, "deny"),)):
            (frame,) = self.frames(DROP)
            self.proxy.to_connector(self.proxy.note(GateNote(ALL, (denied,), edits), frame))
            self.ended_at_connector("decision_refused")
            self.again()
        (frame,) = self.frames(DROP)
        note = GateNote(ALL, (denied,), (Edit(0, 7, "deny"),))
        self.proxy.to_connector(self.proxy.note(note, frame))
        self.assertEqual((self.proxy.target_heard, self.proxy.connector_reason), (b"NO\n", ""))

    def test_the_connector_tells(self) -> None:
        """What it passed and denied stands in the checkpoint, which the Proxy cannot make."""
        (frame,) = self.frames(GET)
        told = GateNote(ALL, (RangeDecision(1, 0, 6, allowed=True),))
        self.proxy.to_connector(self.proxy.note(told, frame))
        self.proxy.advance(30)
        (one,) = self.proxy.checkpoints
        self.assertEqual((one.n, one.decisions, one.is_last), (1, 1, False))
        self.proxy.person.transport.loseConnection()
        self.proxy.turn()
        self.proxy.pass_all()
        self.proxy.kind.targets[-1].protocol.readConnectionLost()
        self.proxy.turn()
        last = self.proxy.checkpoints[-1]
        self.assertEqual((last.decisions, last.head), (1, one.head))
        self.assertEqual((last.is_last, last.is_whole), (True, True))

    # -- R26: time

    def alive(self, seconds: int) -> None:
        """Pass heartbeats, so that neither end finds the other silent."""
        for _ in range(seconds // 10):
            self.proxy.advance(10)
            self.proxy.pass_all()

    def test_prolonged(self) -> None:
        """With Authority's extensions a session outlasts its grant by far."""
        self.alive(600)
        self.assertEqual((self.proxy.connector_reason, self.proxy.person_reason), ("", ""))
        self.assertEqual(len(self.proxy.checkpoints), 20)

    def test_keeps_it_after_120_seconds(self) -> None:
        """Whatever the Proxy says, the Connector ends what Authority does not prolong."""
        self.proxy.prolongs = False
        self.alive(110)
        self.assertEqual(self.proxy.connector_reason, "")
        self.alive(20)
        self.assertEqual(self.proxy.connector_reason, "grant_not_prolonged")

    def test_keeps_it_after_its_revocation(self) -> None:
        """Extensions stop with the revocation; the last one before it ends the session."""
        self.alive(300)
        self.proxy.prolongs = False
        self.alive(130)
        self.assertEqual(self.proxy.connector_reason, "grant_not_prolonged")

    def test_brings_another_extension(self) -> None:
        """Of another session, of an earlier checkpoint, of another cluster."""
        for change in ({"session_uid": "2" * 32}, {"n": 99}, {"cluster": "other.example"}):
            self.proxy.change_extension = change
            self.alive(130)
            self.assertEqual(self.proxy.connector_reason, "grant_not_prolonged", change)
            self.again()

    def test_keeps_it_after_the_person_left(self) -> None:
        """Nobody's heartbeats come any more, and the Proxy can make none."""
        for _ in range(3):
            self.proxy.advance(29)
            self.proxy.up.clear()
        self.assertEqual(self.proxy.connector_reason, "")
        self.proxy.advance(3)
        self.assertEqual(self.proxy.connector_reason, "peer_silent")

    def test_keeps_it_after_the_connector_left(self) -> None:
        """The person's program finds out by itself too."""
        for _ in range(4):
            self.proxy.advance(25)
            self.proxy.down.clear()
            for message in self.proxy.up:
                self.proxy.to_connector(message)
            self.proxy.up.clear()
        self.assertEqual(self.proxy.person_reason, "peer_silent")

    def test_the_end_that_finds_it_says_so(self) -> None:
        """Its word reaches the Proxy, for the person and the log, as the last that it says."""
        (frame,) = self.frames(GET)
        self.proxy.to_connector(self.passed(frame[:-1] + b"!"))
        self.assertEqual(self.proxy.down[-1], end_frame(SessionOver("frame_altered")))
        self.assertEqual(self.proxy.checkpoints[-1].reason, "frame_altered")
        self.assertTrue(parse_gated(frame)[1])
