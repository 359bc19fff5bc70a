"""Conch's connection service, with windows that open only once the far side has taken the bytes.

Conch opens a window again before anybody took what came, so that nothing bounds what waits; its end
of a channel's bytes overtakes those that wait for a window; and it answers for a channel before
anybody knows whether the other side opens it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.conch.error import ConchError
from twisted.conch.ssh.connection import (
    MSG_CHANNEL_FAILURE,
    MSG_CHANNEL_OPEN_CONFIRMATION,
    MSG_CHANNEL_OPEN_FAILURE,
    MSG_CHANNEL_SUCCESS,
    MSG_REQUEST_FAILURE,
    MSG_REQUEST_SUCCESS,
    OPEN_ADMINISTRATIVELY_PROHIBITED,
    OPEN_CONNECT_FAILED,
    OPEN_RESOURCE_SHORTAGE,
)
from twisted.internet.defer import Deferred

from svc.kinds.ssh.conch import NS, QUIET, SSHConnection, getNS

WINDOW = 1 << 20
"""Of a channel and direction: no more than this waits for a slow reader."""

LEAST_WINDOW = 1 << 16
"""Of a channel among many; see :func:`_window`."""

MOST_PACKET = 1 << 15
LEAST_PACKET = 1 << 10
"""Whoever takes less at a time is refused: each packet costs us as much as a large one."""

MOST_CHANNELS = 64
"""Of one session, with those on their way to open or to close: each may hold two windows."""

MOST_WAITING = 64
"""Requests of a channel, or of a connection, that may wait for the target's answer."""

FAR = 1 << 22
"""Once so much more was written to a connection that takes nothing, neither side is read.

Windows bound the bytes of channels; this bounds requests and the answers to them.
"""

_MOST_TEXT = 400


@define(eq=False)
class Outflow:
    """Whether what is written to a connection leaves it: the end of a chain of back-pressure.

    It is the push producer of the connection's transport.

    Attributes:
        sources: Push producers of what is read on either side; see :data:`FAR`.
    """

    sources: tuple[Any, ...] = field(default=(), init=False)
    _is_stopped: bool = field(default=False, init=False)
    _is_held: bool = field(default=False, init=False)
    _beyond: int = field(default=0, init=False)
    _waiting: list[Callable[[], object]] = field(factory=list, init=False)

    def pauseProducing(self) -> None:
        """The transport has enough."""
        self._is_stopped = True

    def resumeProducing(self) -> None:
        """It takes more."""
        self._is_stopped = False
        if self._beyond > FAR:
            for source in self.sources:
                source.resumeProducing()
        self._beyond = 0
        self._go_on()

    def hold(self) -> None:
        """Keys are made: what is written waits in the protocol, and not in the transport."""
        self._is_held = True

    def release(self) -> None:
        """They are made."""
        self._is_held = False
        self._go_on()

    def wrote(self, size: int) -> None:
        """So many bytes were written, whether it takes them or not."""
        if self._is_stopped:
            self._beyond += size
            if self._beyond > FAR:
                for source in self.sources:
                    source.pauseProducing()

    def _go_on(self) -> None:
        if not self._is_stopped and not self._is_held:
            waiting, self._waiting = self._waiting, []
            for go_on in waiting:
                go_on()

    def stopProducing(self) -> None:
        """It is gone, and its protocol hears so by itself."""
        self._waiting.clear()
        self.sources = ()

    def once_open(self, go_on: Callable[[], object]) -> None:
        """Call this when it takes more; at once where it does now."""
        if self._is_stopped or self._is_held:
            self._waiting.append(go_on)
        else:
            go_on()


@define
class Answers:
    """Answers to requests, sent in the order of the requests whenever each is known.

    Attributes:
        send: Sends one.
    """

    send: Callable[[bool, bytes], object]
    _waiting: deque[list[Any]] = field(factory=deque, init=False)

    def add(self, answer: Deferred[bytes], then: Callable[[], object] | None = None) -> None:
        """Answer once this fires: yes with its data, or no where it fails.

        Args:
            then: Called once the answer was sent.

        Raises:
            ConchError: too many wait.
        """
        if len(self._waiting) >= MOST_WAITING:
            raise ConchError("too many requests wait for an answer")
        slot: list[Any] = [None, b"", then]
        self._waiting.append(slot)
        answer.addCallbacks(
            lambda data: self._known(slot, True, data), lambda _: self._known(slot, False, b"")
        )

    def _known(self, slot: list[Any], is_yes: bool, data: bytes) -> None:
        slot[:2] = is_yes, data
        while self._waiting and self._waiting[0][0] is not None:
            said, more, then = self._waiting.popleft()
            self.send(said, more)
            if then is not None:
                then()


class FlowConnection(SSHConnection):  # type: ignore[misc]
    """One side's connection.

    Attributes:
        outflow: Of its transport.
        across: The connection that channels are opened onward on, once it is there.
        awaited: Rights by which the far side has asked for channels that begin at our peer.
    """

    _log = QUIET
    across: FlowConnection | None = None

    def __init__(self) -> None:
        super().__init__()
        self.outflow = Outflow()
        self.awaited: set[str] = set()
        self.global_answers = Answers(self._answer_global)
        self._opening = 0

    def ssh_CHANNEL_DATA(self, packet: bytes) -> None:
        """As Conch, but that whoever takes the bytes opens the window."""
        self._taken(packet, 8, lambda channel, data: channel.dataReceived(data))

    def ssh_CHANNEL_EXTENDED_DATA(self, packet: bytes) -> None:
        """Likewise."""
        kind = int.from_bytes(packet[4:8], "big")
        self._taken(packet, 12, lambda channel, data: channel.extReceived(kind, data))

    def _taken(self, packet: bytes, head: int, take: Callable[[Any, bytes], object]) -> None:
        channel, data = self.channels[_number(packet, 0)], packet[head:]
        if _number(packet, head - 4) != len(data) or (
            len(data) > min(channel.localWindowLeft, channel.localMaxPacket)
        ):
            self.sendClose(channel)
            return
        channel.localWindowLeft -= len(data)
        if not channel.localClosed:
            take(channel, data)

    def reopen(self, channel: Any) -> None:
        """All that came of this channel was taken."""
        if channel.localWindowLeft <= channel.localWindowSize // 2 and not channel.remoteClosed:
            self.adjustWindow(channel, channel.localWindowSize - channel.localWindowLeft)

    def ssh_CHANNEL_REQUEST(self, packet: bytes) -> None:
        """As Conch, in whose hands a late answer overtakes an earlier one."""
        channel = self.channels[_number(packet, 0)]
        kind, rest = getNS(packet[4:])
        wants_answer = rest[:1] != b"\0"
        answer, then = channel.requested(kind, rest[1:], wants_answer)
        if wants_answer:
            channel.answers.add(answer, then)
        else:
            answer.addErrback(lambda _: None)
            if then is not None:
                then()

    def answer_request(self, channel: Any, is_yes: bool) -> None:
        """Send the answer to a request of a channel."""
        if channel in self.channelsToRemoteChannel and not channel.localClosed:
            word = MSG_CHANNEL_SUCCESS if is_yes else MSG_CHANNEL_FAILURE
            self.transport.sendPacket(word, _bytes(self.channelsToRemoteChannel[channel]))

    def ssh_GLOBAL_REQUEST(self, packet: bytes) -> None:
        """As Conch, but that the answer may come later."""
        kind, rest = getNS(packet)
        wants_answer = rest[:1] != b"\0"
        answer = self.asked_globally(kind, rest[1:], wants_answer)
        if wants_answer:
            self.global_answers.add(answer)
        else:
            answer.addErrback(lambda _: None)

    def asked_globally(self, kind: bytes, data: bytes, wants_answer: bool) -> Deferred[bytes]:
        """The answer to a request of the connection's own; fails where it is no."""
        return no()

    def _answer_global(self, is_yes: bool, data: bytes) -> None:
        if self.transport is not None:
            word = MSG_REQUEST_SUCCESS if is_yes else MSG_REQUEST_FAILURE
            self.transport.sendPacket(word, data if is_yes else b"")

    def ssh_CHANNEL_OPEN(self, packet: bytes) -> None:
        """Open it onward; the answer is what comes of that."""
        kind, rest = getNS(packet)
        sender, window, most = (_number(rest, at) for at in (0, 4, 8))
        try:
            here, there = len(self.channels) + self._opening, len((self.across or self).channels)
            if max(here, there) >= MOST_CHANNELS:
                raise ConchError("svc: too many channels in one session", OPEN_RESOURCE_SHORTAGE)
            if most < LEAST_PACKET:
                raise ConchError(
                    "svc: a channel has to take 1024 bytes at a time, or more",
                    OPEN_RESOURCE_SHORTAGE,
                )
            channel = self.opened(kind, rest[12:])
        except ConchError as refusal:
            self._refuse_channel(sender, *refusal.args)
            return
        channel.conn = self
        channel.remoteWindowLeft = window
        channel.remoteMaxPacket = min(most, MOST_PACKET)
        for one in (channel, channel.other):
            one.localWindowSize = one.localWindowLeft = _window(len(self.channels))
        self._opening += 1
        channel.open_onward(
            lambda: self._confirm(channel, sender),
            lambda text, reason: self._failed(sender, text, reason),
        )

    def ssh_CHANNEL_OPEN_CONFIRMATION(self, packet: bytes) -> None:
        """As Conch, once for each channel, and in packets of a possible size."""
        most = _number(packet, 12)
        if self.channels[_number(packet, 0)] in self.channelsToRemoteChannel:
            raise ConchError("a channel was opened twice")
        if most < LEAST_PACKET:
            raise ConchError("a channel takes too little at a time")
        within = packet[:12] + _bytes(min(most, MOST_PACKET)) + packet[16:]
        super().ssh_CHANNEL_OPEN_CONFIRMATION(within)

    def opened(self, kind: bytes, data: bytes) -> Any:
        """The channel that the peer opens.

        Raises:
            ConchError: it may not; see :func:`prohibited`.
        """
        raise prohibited("svc: there are no channels of this type here")

    def _failed(self, sender: int, text: str, reason: int) -> None:
        self._opening -= 1
        self._refuse_channel(sender, text, reason)

    def _confirm(self, channel: Any, sender: int) -> None:
        self._opening -= 1
        channel.id = self.localChannelID
        self.localChannelID += 1
        self.channels[channel.id] = channel
        self.channelsToRemoteChannel[channel] = sender
        self.localToRemoteChannel[channel.id] = sender
        numbers = sender, channel.id, channel.localWindowSize, channel.localMaxPacket
        self.transport.sendPacket(MSG_CHANNEL_OPEN_CONFIRMATION, b"".join(map(_bytes, numbers)))

    def _refuse_channel(self, sender: int, text: str, reason: int = OPEN_CONNECT_FAILED) -> None:
        said = text.encode("utf-8", "replace")[:_MOST_TEXT]
        numbers = _bytes(sender) + _bytes(reason)
        self.transport.sendPacket(MSG_CHANNEL_OPEN_FAILURE, numbers + NS(said) + NS(b""))


def prohibited(text: str) -> ConchError:
    """A channel that is not opened, and why."""
    return ConchError(text, OPEN_ADMINISTRATIVELY_PROHIBITED)


def yes(data: bytes = b"") -> Deferred[bytes]:
    """An answer that is known."""
    answer: Deferred[bytes] = Deferred()
    answer.callback(data)
    return answer


def no() -> Deferred[bytes]:
    """Likewise."""
    answer: Deferred[bytes] = Deferred()
    answer.errback(ConchError("refused"))
    return answer


def _window(others: int) -> int:
    """Of one more channel: many together may hold some 16 MiB for each direction."""
    return max(WINDOW >> (others // 8), LEAST_WINDOW)


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _bytes(number: int) -> bytes:
    return number.to_bytes(4, "big")
