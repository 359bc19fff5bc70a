"""How long a connection has waited to be accepted, as the kernel counts it.

A thousand who come at once are taken a few at a time, and the last waits for
seconds; its deadline counts from when it came, or whoever comes in a crowd would
be borne with longer than whoever comes alone.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

_TCP_INFO = getattr(socket, "TCP_INFO", None)
_LAST_DATA_SENT = struct.Struct("=I")
_OFFSET = 44
"""Of ``tcpi_last_data_sent`` in Linux's ``struct tcp_info``: milliseconds.  Of a connection on
which we have sent nothing it counts from the end of TCP's handshake, whatever the peer sends."""


def waited_secs(transport: Any) -> float:
    """Seconds since the kernel had the connection; 0 where it does not say.

    Called before anything is sent on it; does not block.

    Args:
        transport: Of a protocol that was just connected, over TLS or not.
    """
    while (inner := getattr(transport, "transport", None)) is not None:
        transport = inner  # below TLS
    handle = getattr(transport, "getHandle", lambda: None)()
    if _TCP_INFO is None or not isinstance(handle, socket.socket):
        return 0.0
    try:
        info = handle.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _OFFSET + _LAST_DATA_SENT.size)
    except OSError:
        return 0.0  # not TCP, or gone already: its loss follows
    if len(info) < _OFFSET + _LAST_DATA_SENT.size:
        return 0.0
    return float(_LAST_DATA_SENT.unpack_from(info, _OFFSET)[0]) / 1000
