"""A TCP proxy that does to connections what networks do: holds, loses, cuts, resets.

Each direction of each connection is a thread's, so that a test, which blocks, is not in its
way.  A watcher sees each piece of data before it goes on, and may wait: what it waits for is
held, as on a slow way.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from threading import Condition, Thread

from attrs import define, field

UP, DOWN = "up", "down"
"""From who connected to the target, and back."""
BOTH = (UP, DOWN)
_RESET = struct.pack("ii", 1, 0)
_SECONDS = 10.0

Target = tuple[str, int] | str
"""An address, or the path of a Unix socket."""


class Mode(Enum):
    """What becomes of the data in one direction."""

    PASS = "pass"
    HOLD = "hold"  # nothing is read; the sender's window fills
    LOSE = "lose"  # read and thrown away


@define(eq=False)
class Way:
    """One connection through the proxy."""

    near: socket.socket
    far: socket.socket
    is_over: bool = field(init=False, default=False)
    _open: int = field(init=False, default=2)

    def side(self, direction: str) -> tuple[socket.socket, socket.socket]:
        """Where data of a direction comes from and goes to."""
        return (self.near, self.far) if direction == UP else (self.far, self.near)

    def close(self, reset: bool = False) -> None:
        """End both connections, by RST or in order."""
        self.is_over = True
        for each in (self.near, self.far):
            with suppress(OSError):  # the peer was quicker
                if reset and each.family != socket.AF_UNIX:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                # Wakes the thread that reads it; a mere close would not, nor send anything.
                each.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
            each.close()

    def end(self, sink: socket.socket) -> bool:
        """Pass on that one direction has ended; whether both have."""
        sink.shutdown(socket.SHUT_WR)
        self._open -= 1
        return self._open == 0


Watcher = Callable[[Way, str, bytes], bool]
"""Told the connection, the direction and the data; False: nothing of it goes on."""


@define(eq=False)
class FaultProxy:
    """Listens on 127.0.0.1 and joins each connection with one to *target*."""

    target: Target
    watcher: Watcher | None = None
    _modes: dict[str, Mode] = field(init=False, factory=lambda: dict.fromkeys(BOTH, Mode.PASS))
    _refuses: bool = field(init=False, default=False)
    _changed: Condition = field(init=False, factory=Condition)
    _ways: list[Way] = field(init=False, factory=list)
    _listening: socket.socket = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def address(self) -> str:
        """Where it listens, as a configuration has it."""
        return f"127.0.0.1:{self.port}"

    def set(self, mode: Mode, *directions: str) -> None:
        """What becomes of the data from now on, of connections that are made later too."""
        with self._changed:
            for direction in directions or BOTH:
                self._modes[direction] = mode
            self._changed.notify_all()

    def cut(self, reset: bool = False) -> None:
        """End every connection, and each that is made from now on."""
        with self._changed:
            self._refuses = True
            ways, self._ways = self._ways, []
            self._changed.notify_all()
        for way in ways:
            way.close(reset)

    def heal(self) -> None:
        """Let everything through; connections that lost something end, as TCP would end them."""
        with self._changed:
            lossy = Mode.LOSE in self._modes.values()
            self._modes = dict.fromkeys(BOTH, Mode.PASS)
            self._refuses = False
            ways = self._ways[:] if lossy else []
            self._changed.notify_all()
        for way in ways:
            way.close(reset=True)

    def close(self) -> None:
        """End it."""
        self.cut()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if self._refuses:
                near.close()
                continue
            Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        try:
            far = _connected(self.target)
        except OSError:
            near.close()
            return
        way = Way(near, far)
        with self._changed:
            self._ways.append(way)
        Thread(target=self._pump, args=(way, DOWN), daemon=True).start()
        self._pump(way, UP)

    def _pump(self, way: Way, direction: str) -> None:
        source, sink = way.side(direction)
        is_done = True
        try:
            while data := self._read(way, source, direction):
                if self._modes[direction] is Mode.LOSE:
                    continue
                if self.watcher is None or self.watcher(way, direction, data):
                    sink.sendall(data)
            is_done = way.is_over or way.end(sink)
        except OSError:
            pass  # one of the two has ended: so does the other
        if is_done:
            with self._changed:
                if way in self._ways:
                    self._ways.remove(way)
                self._changed.notify_all()
            if not way.is_over:
                way.close()

    def _read(self, way: Way, source: socket.socket, direction: str) -> bytes:
        """What comes next, unless it is held up, before it is read or after."""
        data = source.recv(1 << 16)
        with self._changed:
            while self._modes[direction] is Mode.HOLD and way in self._ways:
                self._changed.wait()
        return data


def _connected(target: Target) -> socket.socket:
    if isinstance(target, str):
        far = socket.socket(socket.AF_UNIX)
        far.connect(target)
        return far
    return socket.create_connection(target, _SECONDS)
