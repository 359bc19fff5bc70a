"""Plain TCP connections that carry much: read in larger pieces than Twisted's.

Twisted reads 64 KiB a turn.  For a stream at full speed the turns then cost as
much as the bytes; for one that carries little a larger room gains nothing.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import ISSLTransport
from twisted.internet.tcp import Connection

READ_BYTES = 256 * 1024
"""The most that is read at once, and about what may wait to be written: twice this is held for
one direction at most, and a turn of the reactor is no longer than this takes to encrypt."""


def read_largely(transport: Any) -> None:
    """Read more of *transport* at once from now on, where it is a socket; never blocks."""
    if is_plain(transport):
        # Twisted's own attribute, and its mark for a full buffer as well.
        transport.bufferSize = READ_BYTES


def is_plain(transport: Any) -> bool:
    """Whether its bytes are those on the wire: Twisted's socket, and no TLS begun on it."""
    return isinstance(transport, Connection) and not ISSLTransport.providedBy(transport)
