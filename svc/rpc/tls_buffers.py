"""The memory between OpenSSL and us, which keeps the size of the most it ever held.

A handshake's flights, certificates and all, are many times what an idle connection needs later:
some 5 KiB for each connection that lasts.  Nothing else here touches a private name of pyOpenSSL.
"""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL

_lib: Any = SSL._lib  # type: ignore[attr-defined]
_ffi: Any = SSL._ffi  # type: ignore[attr-defined]


def release_buffers(connection: SSL.Connection) -> bool:
    """Put empty buffers in the place of those of the handshake; False while they hold anything.

    Args:
        connection: Over memory buffers, its handshake done.
    """
    tls: Any = connection
    start = _ffi.new("char **")
    if any(_lib.BIO_get_mem_data(old, start) > 0 for old in (tls._into_ssl, tls._from_ssl)):
        return False
    fresh = [_lib.BIO_new(_lib.BIO_s_mem()) for _ in range(2)]
    if _ffi.NULL in fresh:
        raise MemoryError("OpenSSL has no memory for a connection's buffers")
    tls._into_ssl, tls._from_ssl = fresh
    _lib.SSL_set_bio(tls._ssl, *fresh)  # which frees the old ones
    return True
