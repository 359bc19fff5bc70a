"""The attackers: each a name, what it sends, and how it must end.

Frames by hyperframe, header blocks by hpack; what neither would write is written by hand.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from struct import pack

from attrs import frozen
from hyperframe.frame import (
    AltSvcFrame,
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.system.raw import EMPTY_MESSAGE, HEALTH, Fields, Raw, whole

MANY = 5000
CALM, PROTOCOL, FLOW, CLOSED, SIZE, REFUSED, COMPRESSION = 11, 1, 3, 5, 6, 7, 9
LARGEST = 2**31 - 1
WATCH = "/grpc.health.v1.Health/Watch"


@frozen
class Attacker:
    """One attack that is over as soon as it is answered.

    Attributes:
        attack: Sends it.
        goaway: The code it must end with; None: the connection goes on.
        word: The reason, in GOAWAY and in the log; empty where none is logged.
        answers: ``grpc-status`` words that must come.
        resets: The RST_STREAM codes that must come.
    """

    name: str
    attack: Callable[[Raw], object]
    goaway: int | None = None
    word: str = ""
    answers: tuple[str, ...] = ()
    resets: tuple[int, ...] = ()


def frame(kind: int, flags: int = 0, stream: int = 0, body: bytes = b"") -> bytes:
    """A frame as it is on the wire, whatever it is."""
    head = len(body).to_bytes(3, "big") + bytes((kind, flags))
    return head + stream.to_bytes(4, "big") + body


def flood(one: Frame | bytes, open_stream: bool = False) -> Callable[[Raw], object]:
    """The same frame again and again; on a call that is open where the frame is of stream 1."""

    def attack(raw: Raw) -> None:
        if open_stream:
            raw.send(raw.head(1, WATCH))
        data = one if isinstance(one, bytes) else one.serialize()
        raw.send(data * MANY)

    return attack


def after_reset(one: Callable[[Raw], Frame]) -> Callable[[Raw], object]:
    """A frame again and again on a call that its caller has reset."""

    def attack(raw: Raw) -> None:
        raw.send(raw.head(1), RstStreamFrame(1, 8))
        raw.send(*(one(raw) for _ in range(MANY)))

    return attack


def each_stream(make: Callable[[Raw, int], bytes], count: int = MANY) -> Callable[[Raw], object]:
    """A new call again and again."""

    def attack(raw: Raw) -> None:
        for first in range(0, count, 100):
            calls = range(first, first + 100)
            if not raw.send(b"".join(make(raw, 2 * number + 1) for number in calls)):
                return

    return attack


def once(*frames: Frame | bytes) -> Callable[[Raw], object]:
    """A few frames."""
    return lambda raw: raw.send(*frames)


def headed(**head: object) -> Callable[[Raw], object]:
    """One call with an unusual head."""
    return lambda raw: raw.send(raw.head(1, **head))  # type: ignore[arg-type]


def called(
    path: str = HEALTH, message: bytes = EMPTY_MESSAGE, more: Fields = ()
) -> Callable[[Raw], object]:
    """One call with an unusual path, message or metadata."""
    return lambda raw: raw.send(raw.head(1, path, more=more), whole(1, message))


def rapid_reset(raw: Raw, stream: int) -> bytes:
    """A call and its reset."""
    return raw.head(stream).serialize() + RstStreamFrame(stream, 8).serialize()


def half_open(raw: Raw, stream: int) -> bytes:
    """A call without its message."""
    return bytes(raw.head(stream, WATCH).serialize())


def overflown(raw: Raw, stream: int) -> bytes:
    """A call that we must reset, because its window grows past what a window can be."""
    return raw.head(stream).serialize() + WindowUpdateFrame(stream, LARGEST).serialize()


def written_past_its_end(raw: Raw, stream: int) -> bytes:
    """A call that we must reset, because it goes on after its end."""
    return raw.head(stream, end=True).serialize() + DataFrame(stream, b"x").serialize()


MALFORMED: tuple[Fields, ...] = (
    [("X-Upper", "1")],
    [("host", "elsewhere")],
    [("content-length", "5"), ("content-length", "6")],
    [("x", "a\r\nb")],
    [(":path", "/a.B/C")],
)


def malformed(raw: Raw, stream: int) -> bytes:
    """A request that no HTTP/2 peer may make; it ends its own stream and no other."""
    return bytes(raw.head(stream, more=MALFORMED[stream // 2 % len(MALFORMED)]).serialize())


def fragments(count: int, body: bytes) -> Callable[[Raw], object]:
    """A header block in many frames."""
    return once(
        HeadersFrame(1, b"\x82"),
        *(ContinuationFrame(1, body) for _ in range(count)),
    )


def bomb(raw: Raw) -> None:
    """One long field in the table, then named again and again by one byte."""
    raw.send(raw.head(1, more=[("x", "y" * 3000)], end=True))
    block = raw.head(3, end=True).data + b"\xbe" * 5000
    raw.send(HeadersFrame(3, block, flags=["END_HEADERS", "END_STREAM"]))


def grown_table(raw: Raw) -> None:
    """A table of a gigabyte."""
    size = b"\x3f" + b"\xe1\xff\xff\xff\x03"
    block = size + raw.head(1).data
    raw.send(HeadersFrame(1, block, flags=["END_HEADERS"]))


def resized_table(raw: Raw) -> None:
    """A table that changes its size thousands of times before the first field."""
    block = b"\x20\x3f\x01" * 5000 + raw.head(1).data
    raw.send(HeadersFrame(1, block, flags=["END_HEADERS"]))


def unknown_settings(raw: Raw) -> None:
    """Settings that nobody has defined: tens of thousands in as few frames as are borne."""
    codes = range(0x100, 0x100 + 185 * 170)
    for at in range(0, len(codes), 170):
        body = b"".join(pack("!HL", code, 1) for code in codes[at : at + 170])
        if not raw.send(frame(4, body=body)):
            return


def goes_on_after_leaving(raw: Raw) -> None:
    """A GOAWAY, then a call."""
    raw.send(GoAwayFrame(0), raw.request(1))
    raw.until_answered()


def back_in_time(raw: Raw) -> None:
    """A call with a number below the last."""
    raw.send(raw.head(5), raw.head(3))


def tiny_messages(raw: Raw) -> None:
    """A call with messages of no bytes, as many as its window takes."""
    raw.send(raw.head(1, WATCH), DataFrame(1, EMPTY_MESSAGE * 10).serialize() * 1000)


def bomb_of(megabytes: int) -> bytes:
    """A compressed message that is long once it is not."""
    packed = gzip.compress(bytes(megabytes << 20))
    return pack("!BL", 1, len(packed)) + packed


GZIP_BOMB = bomb_of(10)


def _fields(*changed: tuple[str, str]) -> Fields:
    fields = {":method": "POST", ":scheme": "https", ":path": HEALTH, ":authority": "localhost"}
    fields |= {"te": "trailers", "content-type": "application/grpc"}
    return [*(fields | dict(changed)).items()]


FLOODS = (
    Attacker(name="rapid reset", attack=each_stream(rapid_reset), goaway=CALM, word="reset_flood"),
    Attacker(
        name="MadeYouReset by a window",
        attack=each_stream(overflown),
        goaway=CALM,
        word="reset_flood",
    ),
    Attacker(
        name="MadeYouReset by DATA",
        attack=each_stream(written_past_its_end),
        goaway=CALM,
        word="reset_flood",
    ),
    Attacker(
        name="malformed requests", attack=each_stream(malformed), goaway=CALM, word="reset_flood"
    ),
    Attacker(
        name="PING", attack=flood(PingFrame(0, b"12345678")), goaway=CALM, word="too_many_pings"
    ),
    Attacker(
        name="PING answers",
        attack=flood(PingFrame(0, b"12345678", flags=["ACK"])),
        goaway=CALM,
        word="acknowledgement_flood",
    ),
    Attacker(
        name="SETTINGS",
        attack=flood(SettingsFrame(0, settings={4: 70_000})),
        goaway=CALM,
        word="settings_flood",
    ),
    Attacker(
        name="SETTINGS answers",
        attack=flood(SettingsFrame(0, flags=["ACK"])),
        goaway=CALM,
        word="acknowledgement_flood",
    ),
    Attacker("unknown settings", unknown_settings),
    Attacker(
        name="empty DATA",
        attack=flood(DataFrame(1, b""), True),
        goaway=CALM,
        word="empty_data_flood",
    ),
    Attacker(
        name="padding alone",
        attack=flood(DataFrame(1, b"", pad_length=3, flags=["PADDED"]), True),
        goaway=CALM,
        word="empty_data_flood",
    ),
    Attacker(
        name="PRIORITY",
        attack=flood(PriorityFrame(1, depends_on=3)),
        goaway=CALM,
        word="priority_flood",
    ),
    Attacker(
        name="WINDOW_UPDATE",
        attack=flood(WindowUpdateFrame(0, 1)),
        goaway=CALM,
        word="window_update_flood",
    ),
    Attacker(
        name="WINDOW_UPDATE of a call",
        attack=flood(WindowUpdateFrame(1, 1), True),
        goaway=CALM,
        word="window_update_flood",
    ),
    Attacker(
        name="unknown frames",
        attack=flood(frame(0xB, 0xFF, 1, b"?")),
        goaway=CALM,
        word="unknown_frame_flood",
    ),
    Attacker(
        name="ALTSVC",
        attack=flood(AltSvcFrame(0, b"a", b"b")),
        goaway=CALM,
        word="unknown_frame_flood",
    ),
    Attacker(
        name="GOAWAY",
        attack=flood(GoAwayFrame(0), open_stream=True),
        goaway=CALM,
        word="goaway_flood",
    ),
    Attacker(
        name="RST_STREAM of a closed call",
        attack=after_reset(lambda raw: RstStreamFrame(1, 8)),
        goaway=CALM,
        word="closed_stream_flood",
    ),
    Attacker(
        name="DATA of a closed call",
        attack=after_reset(lambda raw: DataFrame(1, b"x")),
        goaway=CALM,
        word="closed_stream_flood",
    ),
    Attacker(
        name="HEADERS of a closed call",
        attack=after_reset(lambda raw: raw.head(1)),
        goaway=CALM,
        word="closed_stream_flood",
    ),
    Attacker(
        name="empty CONTINUATION",
        attack=fragments(MANY, b""),
        goaway=CALM,
        word="continuation_flood",
    ),
    Attacker(
        name="CONTINUATION", attack=fragments(MANY, b"\x82"), goaway=PROTOCOL, word="protocol_error"
    ),
    Attacker(
        name="long header block",
        attack=fragments(MANY, b"\0" * 8192),
        goaway=CALM,
        word="header_list_too_long",
    ),
    Attacker(
        name="long header list",
        attack=headed(more=[("x", "y" * 17_000)]),
        goaway=CALM,
        word="header_list_too_long",
    ),
    Attacker(name="HPACK bomb", attack=bomb, goaway=CALM, word="header_list_too_long"),
)
"""Much of something; with a certificate as without."""

WRONGS = (
    Attacker(
        name="table of a gigabyte", attack=grown_table, goaway=COMPRESSION, word="protocol_error"
    ),
    Attacker(
        name="changes of the table", attack=resized_table, goaway=COMPRESSION, word="protocol_error"
    ),
    Attacker(
        name="broken HPACK",
        attack=once(HeadersFrame(1, b"\xff" * 40, flags=["END_HEADERS"])),
        goaway=COMPRESSION,
        word="protocol_error",
    ),
    Attacker(
        name="interleaved CONTINUATION",
        attack=once(HeadersFrame(1, b""), PingFrame(0, b"12345678")),
        goaway=PROTOCOL,
        word="protocol_error",
    ),
    Attacker(
        name="CONTINUATION of nothing",
        attack=once(ContinuationFrame(1, b"", flags=["END_HEADERS"])),
        goaway=PROTOCOL,
        word="protocol_error",
    ),
    Attacker(
        name="PUSH_PROMISE",
        attack=once(frame(5, 4, 1, pack("!L", 2) + b"\x82")),
        goaway=PROTOCOL,
        word="protocol_error",
    ),
    Attacker(
        name="DATA before HEADERS",
        attack=once(DataFrame(1, b"x")),
        goaway=PROTOCOL,
        word="protocol_error",
    ),
    Attacker(
        name="RST_STREAM of no call",
        attack=once(RstStreamFrame(1, 8)),
        goaway=PROTOCOL,
        word="protocol_error",
    ),
    Attacker(
        name="WINDOW_UPDATE of no call",
        attack=once(WindowUpdateFrame(1, 1)),
        goaway=PROTOCOL,
        word="protocol_error",
    ),
    Attacker(
        name="a server's stream",
        attack=lambda raw: raw.send(raw.head(2)),
        goaway=PROTOCOL,
        word="protocol_error",
    ),
    Attacker(name="a lower number", attack=back_in_time, goaway=PROTOCOL, word="protocol_error"),
    Attacker(
        name="increment of zero",
        attack=once(frame(8, body=bytes(4))),
        goaway=PROTOCOL,
        word="protocol_error",
    ),
    Attacker(
        name="overflown window",
        attack=once(WindowUpdateFrame(0, LARGEST)),
        goaway=FLOW,
        word="flow_control",
    ),
    Attacker(
        name="long DATA",
        attack=once(frame(0, 0, 1, bytes(300_000))),
        goaway=SIZE,
        word="frame_too_long",
    ),
    Attacker(
        name="long SETTINGS",
        attack=once(frame(4, body=bytes(6000))),
        goaway=SIZE,
        word="frame_too_long",
    ),
    Attacker(
        name="frames of no length",
        attack=once(SettingsFrame(0, settings={5: 0})),
        goaway=PROTOCOL,
        word="protocol_error",
    ),
    Attacker(
        name="initial window too large",
        attack=once(frame(4, body=pack("!HL", 4, 2**31))),
        goaway=FLOW,
        word="protocol_error",
    ),
    Attacker(
        name="dependent on itself",
        attack=once(PriorityFrame(1, depends_on=1)),
        goaway=PROTOCOL,
        word="protocol_error",
    ),
)
"""What no HTTP/2 peer may send."""

CALLS = (
    Attacker("no slash", called("grpc.health.v1.Health/Check"), answers=("12",)),
    Attacker("two slashes", called("//grpc.health.v1.Health/Check"), answers=("12",)),
    Attacker("slash behind", called(HEALTH + "/"), answers=("12",)),
    Attacker("escaped slash", called("/grpc.health.v1.Health%2fCheck"), answers=("12",)),
    Attacker("another case", called("/GRPC.health.v1.Health/Check"), answers=("12",)),
    Attacker("message of 4 GiB", called(message=b"\0\xff\xff\xff\xffabc"), answers=("8",)),
    Attacker("compressed without a word", called(message=b"\1\0\0\0\1x"), answers=("13",)),
    Attacker(
        "gzip bomb", called(message=GZIP_BOMB, more=[("grpc-encoding", "gzip")]), answers=("12",)
    ),
    Attacker("message cut short", called(message=b"\0\0\0\0\x09abc"), answers=("13",)),
    Attacker("not POST", headed(over=_fields((":method", "GET")), end=True), answers=("405",)),
    Attacker(
        "CONNECT",
        headed(over=[(":method", "CONNECT"), (":authority", "localhost")]),
        answers=("405",),
    ),
    Attacker("streams of nobody", once(GoAwayFrame(0), SettingsFrame(0, settings={3: 0})), 0),
    Attacker("reserved bits", once(frame(0xF, 0xFF, 2**32 - 1, b"?"))),
    Attacker(
        "not gRPC", headed(over=_fields(("content-type", "text/html")), end=True), answers=("415",)
    ),
    Attacker("timeout of no form", called(more=[("grpc-timeout", "1x")]), answers=("3",)),
    Attacker("timeout of nothing", called(more=[("grpc-timeout", "0n")]), answers=("4",)),
    Attacker("calls after GOAWAY", goes_on_after_leaving, 0, answers=("0",)),
    Attacker("calls past the limit", each_stream(half_open, 100), resets=(REFUSED,)),
    Attacker("tiny messages", tiny_messages),
)
"""What is refused alone: the connection goes on."""
