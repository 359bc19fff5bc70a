"""The memory between OpenSSL and us: records in and out of it, and how much it keeps.

pyOpenSSL's own methods do the same, and ask after each whether one of its callbacks has failed: a
dozen calls for a small message, and a new buffer for each piece.  Here what OpenSSL refuses is
told by pyOpenSSL, as ever, and what it takes by nobody.

The memory keeps the size of the most it ever held.  A handshake's flights, certificates and all,
are many times what an idle connection needs later: some 5 KiB for each connection that lasts.

All of it is for the reactor's thread alone.  Nothing else here touches a private name of
pyOpenSSL.
"""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL

from svc.rpc.tls_records import RECORD_BYTES

_lib: Any = SSL._lib  # type: ignore[attr-defined]
_ffi: Any = SSL._ffi  # type: ignore[attr-defined]

_WANT_READ, _ZERO_RETURN = _lib.SSL_ERROR_WANT_READ, _lib.SSL_ERROR_ZERO_RETURN

_ROOM_BYTES = 10 * RECORD_BYTES
"""What the largest piece that is read of a socket is when encrypted, and some more."""

_room = _ffi.new("char[]", _ROOM_BYTES)
_copied = _ffi.buffer(_room)
_from_buffer = _ffi.from_buffer


def put_ciphertext(connection: SSL.Connection, data: bytes) -> None:
    """Give OpenSSL ciphertext that came."""
    tls: Any = connection
    if _lib.BIO_write(tls._into_ssl, _from_buffer(data), len(data)) != len(data):
        raise MemoryError("OpenSSL has no memory for what came")


def read_record(connection: SSL.Connection) -> bytes:
    """The data of the next record.

    Raises:
        SSL.Error: as ``SSL.Connection.recv``.
    """
    tls: Any = connection
    size = _lib.SSL_read(tls._ssl, _room, RECORD_BYTES)
    if size <= 0:
        # None of pyOpenSSL's callbacks is called on the way to these two.
        why = _lib.SSL_get_error(tls._ssl, size)
        if why == _WANT_READ:
            raise SSL.WantReadError
        if why == _ZERO_RETURN:
            raise SSL.ZeroReturnError
        tls._raise_ssl_error(tls._ssl, size)
    return _copied[:size]  # type: ignore[no-any-return]


def write_records(connection: SSL.Connection, data: bytes | memoryview) -> int:
    """Make records of *data*; how many bytes of it went into them.

    Raises:
        SSL.Error: as ``SSL.Connection.send``.
    """
    tls: Any = connection
    size: int = _lib.SSL_write(tls._ssl, _from_buffer(data), len(data))
    if size <= 0:
        tls._raise_ssl_error(tls._ssl, size)
    return size


def take_ciphertext(connection: SSL.Connection) -> bytes:
    """Everything that OpenSSL has to send; it is handed over."""
    tls: Any = connection
    size = _lib.BIO_read(tls._from_ssl, _room, _ROOM_BYTES)
    if size < _ROOM_BYTES:
        return _copied[:size] if size > 0 else b""
    pieces = []
    while size > 0:
        pieces.append(_copied[:size])
        size = _lib.BIO_read(tls._from_ssl, _room, _ROOM_BYTES)
    return b"".join(pieces)


def sealed(connection: SSL.Connection, data: bytes | memoryview) -> bytes:
    """The records of *data*, behind whatever else OpenSSL has to send; it is handed over.

    Args:
        data: Of one record, or all of it where OpenSSL writes the whole.

    Raises:
        SSL.Error: as ``SSL.Connection.send``.
    """
    tls: Any = connection
    size = _lib.SSL_write(tls._ssl, _from_buffer(data), len(data))
    if size <= 0:
        tls._raise_ssl_error(tls._ssl, size)
    size = _lib.BIO_read(tls._from_ssl, _room, _ROOM_BYTES)
    if size < _ROOM_BYTES:
        return _copied[:size] if size > 0 else b""
    piece: bytes = _copied[:size]
    return piece + take_ciphertext(connection)


def release_buffers(connection: SSL.Connection) -> bool:
    """Put empty buffers in the place of those of the handshake; False while they hold anything.

    Args:
        connection: Over memory buffers, its handshake done.
    """
    tls: Any = connection
    start = _ffi.new("char **")
    size = _lib.BIO_get_mem_data
    if size(tls._into_ssl, start) > 0 or size(tls._from_ssl, start) > 0:
        return False
    into, out = _lib.BIO_new(_lib.BIO_s_mem()), _lib.BIO_new(_lib.BIO_s_mem())
    if _ffi.NULL in (into, out):
        raise MemoryError("OpenSSL has no memory for a connection's buffers")
    tls._into_ssl, tls._from_ssl = into, out
    _lib.SSL_set_bio(tls._ssl, into, out)  # which frees the old ones
    return True
