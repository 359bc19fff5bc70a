"""Where the records of TLS end in its ciphertext (RFC 8446, 5.1).

OpenSSL says by an exception that it has no whole record yet, which costs more than to count.
Nothing here is checked: what is wrong with a record is for OpenSSL to say.
"""

from __future__ import annotations

RECORD_BYTES = 1 << 14
"""The most that a record holds: OpenSSL gives no more at a time, and pyOpenSSL makes a buffer of
what it is asked for."""

_HEADER_BYTES = 5
_MAX_CIPHERTEXT = RECORD_BYTES + 2048
"""No version of TLS has a longer record (RFC 5246, 6.2.3)."""

_APPLICATION_DATA = 23
_TYPES = range(20, 25)


def is_one_of_data(data: bytes) -> bool:
    """Whether *data*, where a record begins, is one whole record of application data."""
    size = len(data)
    return (
        size > _HEADER_BYTES
        and size == _HEADER_BYTES + (data[3] << 8 | data[4])
        and data[0] == _APPLICATION_DATA
    )


class Records:
    """Where records end in a stream of ciphertext (RFC 8446, 5.1)."""

    __slots__ = ("_header", "_is_lost", "_missing")

    def __init__(self) -> None:
        self._header = b""
        self._missing = 0
        self._is_lost = False

    @property
    def is_between(self) -> bool:
        """Whether the next byte begins a record."""
        return not (self._header or self._missing or self._is_lost)

    def ended_by(self, data: bytes) -> int:
        """How many records *data* completes; at least one once something was no record.

        Then nothing is known any more, and OpenSSL is to look at each piece.
        """
        if self._is_lost:
            return 1
        count, at, size = 0, 0, len(data)
        while at < size:
            if not self._missing:
                header = (self._header + data[at : at + _HEADER_BYTES])[:_HEADER_BYTES]
                at += len(header) - len(self._header)
                self._header = header
                if len(header) < _HEADER_BYTES:
                    break
                self._missing = header[3] << 8 | header[4]
                if header[0] not in _TYPES or not 0 < self._missing <= _MAX_CIPHERTEXT:
                    self._is_lost = True
                    return count + 1
                self._header = b""
            step = min(self._missing, size - at)
            self._missing -= step
            at += step
            count += not self._missing
        return count
