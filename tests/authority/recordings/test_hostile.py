"""What a Connector, or an operator, under somebody else's control brings about at Authority."""

from __future__ import annotations

from threading import Barrier, Thread
from typing import Any

from attrs import define, evolve, field

from svc.authority.recordings.admin import RecordingAdmin
from svc.authority.recordings.files import RecordingFiles
from svc.authority.state.recorder import node
from svc.errors import Malformed, TooMany
from svc.messages.session import decode_grant
from svc.model.recording import RecordingState
from svc.proto.gate.v1 import recording_pb2 as pb
from svc.ratelimit.limits import Rate
from svc.recording.file import RecordingEnd, RecordingHeader, beginning
from svc.recording.part import RecordingPart, put_request, read_put
from svc.recording.sealing import DATA, END, Frame, seal
from svc.runtime.threads import inline
from tests.authority.house import refusal_of, value_of
from tests.authority.recordings.test_delivery import HEAD, DeliveryCase
from tests.support.recording import RECORDING_KEY, RECORDING_KEYS

DEEP = b"[" * (1 << 16)


@define(eq=False)
class Counting(RecordingFiles):
    """Counts the bytes that are read."""

    came: int = field(default=0, init=False)

    def read(self, id: str, offset: int, size: int) -> bytes:
        data = super().read(id, offset, size)
        self.came += len(data)
        return data


class HostileCase(DeliveryCase):
    """A Connector that writes its files as it likes."""

    def file(self, *frames: Frame, channel: int = 0, began_ms: int | None = None) -> bytes:
        """A recording's, sealed as it should be."""
        issued = decode_grant(self.signed.payload).issued_at_ms
        header = RecordingHeader(
            signed=self.signed,
            channel=channel,
            key=RECORDING_KEY.public,
            began_ms=issued if began_ms is None else began_ms,
        )
        chain = header.chain()
        return beginning(header) + b"".join(seal(header.key, chain, each) for each in frames)

    def bring(self, data: bytes, channel: int = 0, offset: int = 0, **more: Any) -> Any:
        """All of a file, or its end."""
        part = RecordingPart(
            signed=self.signed, channel=channel, offset=offset, data=data, is_last=True, **more
        )
        return value_of(self.put(part))


class ConnectorTests(HostileCase):
    """What it brings."""

    def test_times(self) -> None:
        """When it says that a recording began moves it neither out of reach nor into removal."""
        for channel, began_ms in enumerate((0, -(1 << 62), 1 << 62)):
            self.bring(self.file(Frame(DATA, HEAD), channel=channel, began_ms=began_ms), channel)
        issued = decode_grant(self.signed.payload).issued_at_ms
        for one in self.kept():
            self.assertTrue(issued <= one.began_ms <= self.house.now() * 1000, one.began_ms)

    def test_reasons(self) -> None:
        """Nothing but a word of its gets into records."""
        ends = [
            RecordingEnd("\x1b]0;x\x07").frame(),
            RecordingEnd("x" * 65).frame(),
            Frame(END, b'{"reason": "", "unrecorded": -1}'),
            Frame(END, b'{"reason": "\\ud800", "unrecorded": 0}'),
            Frame(END, DEEP),
        ]
        for channel, end in enumerate(ends):
            self.bring(self.file(Frame(DATA, HEAD), end, channel=channel), channel)
        self.assertEqual({one.state for one in self.kept()}, {RecordingState.DAMAGED})
        self.assertLessEqual({x["reason"] for x in self.records()}, {"malformed", "bad_request"})
        part = RecordingPart(
            signed=self.signed, channel=0, offset=0, is_last=True, reason="\x1b[31m"
        )
        self.assertRaises(Malformed, read_put, put_request(part))

    def test_deep(self) -> None:
        """Lines that no parser ends are of no known form."""
        end = RecordingEnd().frame()
        self.bring(self.file(Frame(DATA, DEEP), Frame(DATA, b"\n" + DEEP[1:]), end))
        [one] = self.kept()
        self.assertEqual((one.state, one.form, one.duration_ms), (RecordingState.COMPLETE, "", 0))

    def test_damaged_again(self) -> None:
        """What is on record as damaged is not opened and recorded again for each more byte."""
        held, _ = self.bring(b"no recording")
        for _ in range(3):
            self.assertEqual(self.bring(b"x", offset=held), (held, True))
        self.assertEqual(len(self.records()), 1)

    def test_flood(self) -> None:
        """Each beginning and each end counts: there is a record of each, or a file to open."""
        self.house.rates.identities.buckets.change(Rate(per_minute=1, burst=10))
        for channel in range(5):
            begun = RecordingPart(signed=self.signed, channel=channel, offset=0)
            value_of(self.put(begun))
            value_of(self.put(evolve(begun, data=b"x")))
            self.bring(b"", channel, offset=1)
        more = RecordingPart(signed=self.signed, channel=5, offset=0)
        self.assertIsInstance(refusal_of(self.put(more)), TooMany)
        self.assertEqual((len(self.kept()), len(self.records())), (5, 5))


class ReadingTests(HostileCase):
    """What an operator asks."""

    def test_middle(self) -> None:
        """Whoever begins in the middle is on record as well, once for each reading."""
        data = self.file(*(Frame(DATA, b"x" * (1 << 16)) for _ in range(9)))
        self.bring(data)
        [one] = self.kept()
        now = [self.house.now()]
        admin = RecordingAdmin(
            store=self.house.store,
            recorder=self.house.recorder,
            recordings=self.files,
            keys=lambda: RECORDING_KEYS,
            in_thread=inline,
            now=lambda: now[0],
        )
        first = len(self.file())

        def read(offset: int, who: str) -> pb.ReadRecordingResponse:
            request = pb.ReadRecordingRequest(id=one.id, offset=offset)
            answer: pb.ReadRecordingResponse = value_of(admin.read(request, node(who)))
            return answer

        whole = read(0, "a")
        self.assertEqual(len(self.records("recording.read")), 1)
        self.assertEqual(len(read(whole.next, "a").data), 1 << 16)
        self.assertEqual(len(self.records("recording.read")), 1)
        self.assertEqual(read(first, "b").data, whole.data)
        self.assertEqual(len(self.records("recording.read")), 2)
        now[0] += 3600
        read(first, "b")
        self.assertEqual(len(self.records("recording.read")), 3)

    def test_long(self) -> None:
        """A reading goes on where its last part ended, and reads no part of the file twice."""
        texts = [bytes((number,)) * (1 << 16) for number in range(40)]
        self.bring(self.file(*(Frame(DATA, text) for text in texts), RecordingEnd().frame()))
        [one] = self.kept()
        files = Counting(self.files.root)
        admin = RecordingAdmin(
            store=self.house.store,
            recorder=self.house.recorder,
            recordings=files,
            keys=lambda: RECORDING_KEYS,
            in_thread=inline,
            now=self.house.now,
        )
        said, offset = b"", 0
        while True:
            request = pb.ReadRecordingRequest(id=one.id, offset=offset)
            answer = value_of(admin.read(request, node("a")))
            said, offset = said + answer.data, answer.next
            if not offset:
                break
        self.assertEqual(said, b"".join(texts))
        self.assertLess(files.came, 2 * files.held(one.id))
        self.assertEqual(len(self.records("recording.read")), 1)


class CountTests(HostileCase):
    """What bounds them."""

    def test_twice(self) -> None:
        """The same bytes that two Authorities are brought at the same time are kept once."""
        id = "0" * 32 + "-0"
        stores = [RecordingFiles(self.base / "shared") for _ in range(4)]

        def append(files: RecordingFiles) -> None:
            for at in range(100):
                barrier.wait(10)
                files.append(id, at, b"x")

        barrier = Barrier(len(stores))
        threads = [Thread(target=append, args=(files,)) for files in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(stores[0].held(id), 100)

    def test_at_a_time(self) -> None:
        """Bytes of recordings that come at the same time are all counted."""
        ids = [f"{number:032x}-0" for number in range(8)]
        files = RecordingFiles(self.base / "counted")

        def append(id: str) -> None:
            for at in range(30):
                files.append(id, at, b"x")

        threads = [Thread(target=append, args=(id,)) for id in ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(files.total(), sum(files.held(id) for id in ids))
