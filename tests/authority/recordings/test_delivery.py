"""Recordings from a Connector's disk to Authority's, with both of their rooms in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.recordings.admin import RecordingAdmin
from svc.authority.recordings.expiry import RecordingExpiry
from svc.authority.recordings.files import RecordingFiles
from svc.authority.recordings.key import RecordingKey, RecordingKeys, file_of
from svc.authority.recordings.receive import RecordingReceiver
from svc.authority.state.recorder import node
from svc.connector.recordings.buffers import BufferLimits, RecordingBuffers
from svc.connector.recordings.recorder import FLUSH_SECS, SessionRecorder
from svc.connector.recordings.uploads import (
    AGAIN_SECS,
    GATHER_SECS,
    KEY_SECS,
    RecordingUploads,
)
from svc.errors import SvcError, Unavailable
from svc.interfaces.recordings import ILiveRecording
from svc.messages.session import decode_grant
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.resource import Resource
from svc.model.recording import RecordingState
from svc.policy.words import OPERATORS_POLICY
from svc.proto.gate.v1 import recording_pb2 as pb
from svc.recording.part import RecordingPart
from svc.recording.sealing import public_key
from svc.runtime.services import BackgroundTasks
from svc.runtime.threads import inline
from tests.authority.house import House, refusal_of, value_of
from tests.authority.sessions.test_issue import AS_ROOT
from tests.support.logged import logged
from tests.support.proof import proves
from tests.support.recording import RECORDING_KEY, RECORDING_KEYS

POLICY = (
    OPERATORS_POLICY + '@id("uses") permit (principal, action in [Action::"view", Action::"use"],'
    " resource);"
)
HEAD = b'{"version": 2, "width": 80, "height": 24}\n'


async def _ended() -> None:
    """There is no thread."""


class DeliveryCase(SynchronousTestCase):
    """A session that Authority granted, a Connector that records it."""

    def setUp(self) -> None:
        house = self.house = House(policy=POLICY)
        me = house.connector.id
        host = Resource(id="gated1", kind="ssh", assigned_to=me, onward_auth=OnwardAuth.STORED_KEY)
        house.run(lambda tx: tx.catalog.add(host, 5.0))
        house.refresh()
        house.serve("gated1")
        ask = house.ask(house.ada, "gated1", **AS_ROOT)
        answer: Any = value_of(house.issuance().authorize(ask, house.row(house.proxy)))
        self.signed = answer.grant
        self.limits = BufferLimits(1 << 22, 1 << 20, 1 << 16)
        self.base = Path(self.mktemp())
        self.base.mkdir()
        self.refusals: list[SvcError] = []
        self.asked = 0
        self.clock = Clock()
        self.files = RecordingFiles(self.base / "central")
        self.ended: list[str] = []
        self.keys = RECORDING_KEYS
        self.receiver = RecordingReceiver(
            cluster=house.world.verifier.cluster,
            state_cache=house.state_cache,
            verifier=house.world.verifier,
            store=house.store,
            recorder=house.recorder,
            recordings=self.files,
            keys=lambda: self.keys,
            most=1 << 24,
            now=house.now,
            in_thread=inline,
            on_end=self.ended.append,
            asks=house.rates.identities,
        )
        self.begin_connector()

    def begin_connector(self) -> None:
        """A life of the Connector's."""
        self.tasks = BackgroundTasks()
        self.buffers = RecordingBuffers(
            root=self.base / "buffers", limits=lambda: self.limits, thread=inline
        )
        self.session = SessionRecorder(
            buffers=self.buffers,
            grant=decode_grant(self.signed.payload),
            signed=self.signed,
            clock=self.clock,
            now=self.house.now,
            tasks=self.tasks,
        )
        self.uploads = RecordingUploads(
            buffers=self.buffers, put=self.put, clock=self.clock, end_thread=_ended
        )
        value_of(self.uploads.start())

    async def put(self, part: RecordingPart) -> tuple[int, bool]:
        """As it is answered; where something is wrong, before or after it was kept."""
        self.asked += 1
        assert self.asked < 1000, "it asks for ever"
        if self.refusals:
            raise self.refusals.pop()
        return await self.receiver.put(part, self.house.connector.id)

    def begun(self) -> ILiveRecording:
        """One more recording."""
        self.told: list[str] = []
        made: ILiveRecording = value_of(self.session.begin(self.told.append))
        return made

    def kept(self) -> list[Any]:
        """What is known centrally."""
        return sorted(self.files.all(), key=lambda one: one.channel)

    def read(self, id: str) -> Any:
        """As an operator."""
        admin = RecordingAdmin(
            store=self.house.store,
            recorder=self.house.recorder,
            recordings=self.files,
            keys=lambda: self.keys,
            in_thread=inline,
            now=self.house.now,
        )
        return admin.read(pb.ReadRecordingRequest(id=id), node(self.house.connector.id))

    def records(self, name: str = "recording.delivered") -> list[Any]:
        return self.house.records(name)

    def waiting(self) -> list[str]:
        """Files on the Connector's disk."""
        return sorted(path.name for path in self.buffers.root.glob("*.rec"))


class DeliveryTests(DeliveryCase):
    """What arrives, and what is said of it."""

    @proves("G-SES-14")
    @proves("G-OPEN-74")
    def test_whole(self) -> None:
        """It is kept sealed, opened for an operator, and on record; the buffer is empty then."""
        live = self.begun()
        live.write(HEAD)
        live.write(b'[1.5, "o", "hush"]\n')
        self.clock.advance(FLUSH_SECS)
        self.clock.advance(GATHER_SECS)
        [one] = self.kept()
        self.assertIs(one.state, RecordingState.RECEIVING)
        live.end()
        self.clock.advance(GATHER_SECS)
        [one] = self.kept()
        self.assertEqual((one.state, one.reason), (RecordingState.COMPLETE, ""))
        self.assertEqual((one.form, one.duration_ms), ("asciicast-v2", 1500))
        self.assertEqual(self.waiting(), [])
        raw = self.files.read(one.id, 0, 1 << 20)
        self.assertNotIn(b"hush", raw)
        [record] = self.records()
        self.assertEqual(record["session_uid"], one.session_uid)
        self.assertEqual(record["details"]["recording_sha256"], one.sha256)
        answer = value_of(self.read(one.id))
        self.assertEqual((answer.data, answer.next), (HEAD + b'[1.5, "o", "hush"]\n', 0))
        self.assertEqual(len(self.records("recording.read")), 1)

    def test_another_key(self) -> None:
        """What was sealed before there is a new key is taken and read while the old one is kept."""
        events = logged(self)
        begun, new = self.begun(), RecordingKey(b"n" * 32, public_key(b"n" * 32))
        begun.write(HEAD)
        self.keys = RecordingKeys(new)
        begun.end()
        self.clock.pump([FLUSH_SECS, GATHER_SECS, KEY_SECS, KEY_SECS])
        self.assertEqual((self.kept(), self.records(), len(self.waiting())), ([], [], 1))
        told = [one for one in events if one["log_namespace"] == "svc_connector"]
        self.assertEqual(len(told), 1)
        self.keys = RecordingKeys(new, (RECORDING_KEY,))
        self.clock.advance(KEY_SECS)
        [one] = self.kept()
        self.assertEqual((one.state, self.waiting()), (RecordingState.COMPLETE, []))
        self.assertEqual(value_of(self.read(one.id)).data, HEAD)
        self.keys = RecordingKeys(new)
        refused = refusal_of(self.read(one.id))
        self.assertEqual(refused.reason, "recording_key")
        self.assertIn(file_of(RECORDING_KEY.public), refused.text)

    def test_away(self) -> None:
        """Whenever Authority does not answer, what it does not hold is brought again, once."""
        live = self.begun()
        for _ in range(40):
            live.write(b"x" * 20_000)
            self.refusals = [Unavailable("away")]
            self.clock.advance(FLUSH_SECS)
            self.clock.advance(AGAIN_SECS)
        live.end()
        self.clock.pump([AGAIN_SECS] * 3)
        [one] = self.kept()
        self.assertEqual((one.state, one.size), (RecordingState.COMPLETE, 800_000))
        self.assertEqual(len(self.records()), 1)

    def test_next_life(self) -> None:
        """What a killed Connector has left is brought by the next, to where a frame is whole."""
        live = self.begun()
        self.refusals = [Unavailable("away")] * 5
        live.write(HEAD + b"some")
        self.clock.advance(FLUSH_SECS)
        [path] = self.buffers.root.glob("*.rec")
        with path.open("ab") as file:
            file.write(b"\0\0\1\0torn")
        self.refusals.clear()
        self.begin_connector()
        self.clock.advance(AGAIN_SECS)
        [one] = self.kept()
        self.assertEqual((one.state, one.reason), (RecordingState.CUT_SHORT, "unfinished"))
        self.assertEqual(one.size, len(HEAD) + 4)
        self.assertEqual(self.waiting(), [])

    def test_altered(self) -> None:
        """A file in which a bit is changed is damaged, and that is on record."""
        live = self.begun()
        live.write(HEAD)
        self.refusals = [Unavailable("away")] * 5
        live.end()
        [path] = self.buffers.root.glob("*.rec")
        data = bytearray(path.read_bytes())
        data[-100] ^= 1
        path.write_bytes(data)
        self.refusals.clear()
        self.clock.pump([AGAIN_SECS] * 3)
        self.assertEqual([one.state for one in self.kept()], [RecordingState.DAMAGED])
        self.assertEqual(self.records()[0]["details"]["recording_state"], "damaged")

    def test_again(self) -> None:
        """What is on record is not recorded again, when only its answer was lost."""
        live = self.begun()
        live.write(HEAD)
        live.end()
        self.clock.advance(GATHER_SECS)
        [one] = self.kept()
        self.files.set_facts(evolve(one, state=RecordingState.RECEIVING))
        held = self.files.held(one.id)
        part = RecordingPart(signed=self.signed, channel=0, offset=held, is_last=True)
        self.assertEqual(value_of(self.put(part)), (held, True))
        self.assertEqual(len(self.records()), 1)

    def test_strangers(self) -> None:
        """A Connector brings recordings of its own sessions alone."""
        part = RecordingPart(signed=self.signed, channel=0, offset=0, data=b"x")
        refusal = refusal_of(self.receiver.put(part, self.house.proxy.id))
        self.assertEqual(refusal.reason, "unknown_session")
        self.assertEqual(self.kept(), [])

    def test_late(self) -> None:
        """What stops arriving is lost, and what was kept long enough is removed, on record."""
        self.begun().write(HEAD)
        self.clock.advance(FLUSH_SECS)
        self.clock.advance(GATHER_SECS)
        counted: dict[str, int] = {}
        expiry = RecordingExpiry(
            me=self.house.connector.id,
            store=self.house.store,
            recorder=self.house.recorder,
            recordings=self.files,
            in_thread=inline,
            now=lambda: self.house.now() + 100,
            leads=lambda: True,
            lost_after=60,
            keep_days=0,
            counted=counted.__setitem__,
        )
        value_of(expiry.look())
        self.assertEqual([one.state for one in self.kept()], [RecordingState.LOST])
        self.assertEqual(len(self.records("recording.lost")), 1)
        self.assertEqual(counted["receiving"], 1)
        old = evolve_days(expiry)
        value_of(old.look())
        self.assertEqual(self.kept(), [])
        self.assertEqual(len(self.records("recording.removed")), 1)


def evolve_days(expiry: RecordingExpiry) -> RecordingExpiry:
    """Two days later, of which one is kept."""
    now = expiry.now
    return evolve(expiry, keep_days=1, now=lambda: now() + 2 * 86400)


class RaceTests(DeliveryCase):
    """What comes while something else is done with it."""

    def test_not_lost(self) -> None:
        """One that arrives whole while it is about to be lost is not."""
        live = self.begun()
        live.write(HEAD)
        self.clock.advance(FLUSH_SECS)
        self.clock.advance(GATHER_SECS)

        def in_thread(call: Any) -> Any:
            found = call()
            if isinstance(found, list):  # of all, by which it looks silent
                live.end()
                self.clock.advance(GATHER_SECS)
            return succeed(found)

        expiry = RecordingExpiry(
            me=self.house.connector.id,
            store=self.house.store,
            recorder=self.house.recorder,
            recordings=self.files,
            in_thread=in_thread,
            now=lambda: self.house.now() + 100,
            leads=lambda: True,
            lost_after=60,
            keep_days=0,
            counted=lambda state, count: None,
        )
        value_of(expiry.look())
        self.assertEqual([one.state for one in self.kept()], [RecordingState.COMPLETE])
        self.assertEqual(self.records("recording.lost"), [])

    def test_more_than_there_is(self) -> None:
        """Where Authority holds more of a file than there is, it is not asked for ever."""
        live = self.begun()
        live.write(HEAD)
        self.clock.advance(FLUSH_SECS)
        self.clock.advance(GATHER_SECS)
        [one] = self.kept()
        self.files.append(one.id, self.files.held(one.id), b"x" * 9999)
        asked = self.asked
        live.end()
        self.clock.pump([AGAIN_SECS] * 3)
        self.assertLess(self.asked - asked, 4)
        self.assertEqual(len(self.waiting()), 1)


class BoundTests(DeliveryCase):
    """What recordings may take of a Connector."""

    def test_buffer(self) -> None:
        """Where the room for all is used up none begins, and one under way is cut short."""
        self.refusals = [Unavailable("away")] * 100
        live = self.begun()
        self.limits = evolve(self.limits, most=self.buffers.used + 1000)
        live.write(b"x" * 2000)
        self.clock.advance(FLUSH_SECS)
        self.assertEqual(len(self.told), 1)
        self.assertIn("fill the room", self.told[0])
        refusal = refusal_of(self.session.begin(self.told.append))
        self.assertEqual(refusal.reason, "recording_unavailable")
        self.refusals.clear()
        self.clock.pump([AGAIN_SECS] * 3)
        self.assertEqual([one.reason for one in self.kept()], ["buffer_full"])

    def test_session(self) -> None:
        """A session records so much, over all its recordings."""
        first, second = self.begun(), self.begun()
        first.write(b"x" * (1 << 19))
        second.write(b"x" * (1 << 19))
        self.assertEqual(self.told, [])
        second.write(b"x")
        self.assertEqual(len(self.told), 1)
        first.end()
        self.clock.pump([GATHER_SECS] * 3)
        self.assertEqual([one.reason for one in self.kept()], ["", "session_limit"])

    def test_disk(self) -> None:
        """Where the disk takes nothing, nothing begins."""
        self.buffers.root.touch()
        for asked in (self.session.check(), self.session.begin(self.told_nothing)):
            self.assertEqual(refusal_of(asked).reason, "recording_unavailable")

    def told_nothing(self, text: str) -> None:
        """Nothing had begun."""
        self.fail(text)
