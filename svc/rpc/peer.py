"""Identifies the peer of a transport."""

from __future__ import annotations

import socket
from functools import lru_cache
from struct import Struct
from typing import Any

from cryptography import x509
from OpenSSL import crypto
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.interfaces import IAddress, ISSLTransport

from svc.interfaces.rpc import Peer

_CREDENTIALS = Struct("3i")


def peer_of(transport: Any) -> Peer:
    """The peer of a connected transport; over TLS only once the handshake is done.

    Raises:
        ValueError: its certificate cannot be read, though OpenSSL could.
    """
    address = transport.getPeer()
    if isinstance(address, UNIXAddress):
        return _unix_peer(transport, address)
    host, port = str(address), 0
    if isinstance(address, IPv4Address | IPv6Address):
        host, port = address.host, address.port
    if not ISSLTransport.providedBy(transport):
        return Peer(host, port)
    shown: Any = transport.getPeerCertificate()
    if shown is None:
        return Peer(host, port, tls=True)
    return Peer(host, port, tls=True, chain=_chain(transport, shown))


def _chain(transport: Any, shown: Any) -> tuple[bytes, ...]:
    # OpenSSL keeps no chain for a resumed session.
    verified = transport.getHandle().get_verified_chain() or [shown]
    # Each time in DER: a connection may last for weeks, and what has been parsed weighs more.
    leaf, *above = (crypto.dump_certificate(crypto.FILETYPE_ASN1, one) for one in verified)
    _check_readable(leaf)
    return (leaf, *map(_one_of_all, above))


def _check_readable(leaf: bytes) -> None:
    """Parse a certificate once (2 µs): whoever looks at it later must not be the first to fail."""
    try:
        x509.load_der_x509_certificate(leaf)
    except x509.InvalidVersion as e:
        raise ValueError(str(e)) from None


@lru_cache(64)
def _one_of_all(authority: bytes) -> bytes:
    """The bytes of an authority's certificate, held once for all its peers."""
    return authority


def _unix_peer(transport: Any, address: UNIXAddress) -> Peer:
    name = address.name
    host = name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else (name or "")
    handle = transport.getHandle()
    raw = handle.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _gid = _CREDENTIALS.unpack(raw)
    return Peer(host, 0, uid=uid, pid=pid)


def host_of(addr: IAddress | None) -> str:
    """The peer's address on a network; empty where it has none."""
    host = getattr(addr, "host", "")
    return host if isinstance(host, str) else ""
