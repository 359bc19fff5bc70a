"""How much one connection may use, and how long its peer may leave things unfinished.

All sizes are bytes.  The defaults suit a public listener; a tunnel asks for more streams.
"""

from __future__ import annotations

from attrs import evolve, frozen

KIB = 1024
MIB = 1024 * KIB

BYTE_STREAM_MESSAGE = 257 * KIB
"""The longest message of a byte stream: one frame, and what is around it."""


@frozen
class WireLimits:
    """Bounds of one connection.

    Attributes:
        max_streams: Calls a peer may have open; the next one is refused alone.
        max_frame: The longest DATA frame we accept.
        small_window: What every stream may be sent at first.
        first_window: What it may be sent once it carries bulk data.
        full_window: What it grows to while its reader keeps up.
        crowded: Once the streams' windows add up to this, none is raised any more.
        connection_window: What may be under way to us over all streams.
        max_message: The longest message a reader takes.
        run_ahead: Bytes of unfinished messages longer than their windows, over all streams; the
            streams that would hold more wait until others are done.
        max_header_list: The longest header list, counted as HTTP/2 counts; no header block is
            longer on its way either.
        held_heads: Header lists of open calls together; the call past it is refused alone.
        send_queue: Bytes a stream's writer may queue before it waits.
        held_control: Answers (acknowledgements, window updates) held for a peer that does not read.
        least_ping_secs: Between pings of a caller who is sent nothing meanwhile (``pings``).
        nuisances: How many frames of one useless kind (``svc.wire.floods``) are borne in
            ``nuisance_seconds``.
        resets: And how many calls that end unanswered within a second of their beginning, by the
            peer's reset or by its mistake.
        turn_work: How much is made of received frames before others have their turn, in small
            frames; each is about 20 us.
        stalled_secs: How long a peer may leave what it began: a header block without its end, a
            call without its first message, an answer of which it takes nothing.
        idle_secs: How long a connection without certificate may stand without a call, at least.
    """

    max_streams: int = 1000
    max_frame: int = 256 * KIB
    small_window: int = 64 * KIB
    first_window: int = 256 * KIB
    full_window: int = MIB
    crowded: int = 64 * MIB
    connection_window: int = 16 * MIB
    max_message: int = 4 * MIB
    run_ahead: int = 64 * MIB
    max_header_list: int = 16 * KIB
    held_heads: int = 4 * MIB
    send_queue: int = 256 * KIB
    held_control: int = 64 * KIB
    least_ping_secs: float = 5.0
    nuisances: int = 200
    nuisance_seconds: float = 10.0
    resets: int = 200
    turn_work: int = 128
    stalled_secs: float = 30.0
    idle_secs: float = 60.0


def anonymous(limits: WireLimits) -> WireLimits:
    """What is left of *limits* for a peer without a certificate.

    It asks for health or opens a lane: one call does, and its longest message is one frame of a
    byte stream.
    """
    return evolve(
        limits,
        max_streams=min(limits.max_streams, 32),
        max_message=min(limits.max_message, BYTE_STREAM_MESSAGE),
        held_heads=min(limits.held_heads, 256 * KIB),
    )
