"""The line by which a Connector that ends a session's protocol names itself to tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from svc.errors import Malformed

_log = Logger(namespace="svc_client")

Keep = Callable[[str, str, bytes], object]
"""``keep(directory, name, content)``: of a file below the person's directory; never raises."""


def nothing_kept(directory: str, name: str, content: bytes) -> None:
    """For whoever has no directory."""


@define
class Greeting:
    """Takes the line out of the bytes of one session; tools never see it.

    It came inside the session's TLS, so it is the word of the very Connector that the grant names.

    Attributes:
        local: The kind's side here, an ``IGreetedEndpoint``.
        has_one: Whether the session begins with one; asked once its first bytes are there.
    """

    resource: str
    local: Any
    has_one: Callable[[], bool]
    keep: Keep
    _heard: bytes = field(default=b"", init=False)
    _is_over: bool = field(default=False, init=False)

    def __call__(self, data: bytes) -> bytes:
        """What the tool is passed for these bytes of the session."""
        if self._is_over:
            return data
        self._heard += data
        line, end, rest = self._heard.partition(b"\n")
        if self.has_one() and not end and len(line) < self.local.longest_greeting:
            return b""
        heard, self._heard, self._is_over = self._heard, b"", True
        if not self.has_one():
            return heard
        try:
            name, said = self.local.greeted(self.resource, line + end)
        except Malformed as fault:
            _log.warn("a session begins otherwise than it should", reason=fault.text)
            return heard  # the tool finds out by itself whether it knows its peer
        self.keep(self.local.directory, name, said)
        return rest
