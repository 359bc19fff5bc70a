"""Hosts as people write them into configurations."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address

_LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*\.?\Z")
_ZONE = re.compile(r"[A-Za-z0-9._-]{1,15}\Z")
_LIKE_A_NUMBER = re.compile(r"(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?\Z")


def read_host(text: str) -> str:
    """A DNS name in lower case, or an IP address in its one form, an IPv6 one without brackets.

    A name whose last label is a number is none: resolvers read such texts as
    addresses in forms of their own (``127.1``, ``0x7f000001``), which is not what
    was written (WHATWG URL, "ends in a number").

    Raises:
        ValueError: with a sentence that does not repeat *text*.
    """
    _, percent, zone = text.partition("%")
    try:
        if not percent or _ZONE.match(zone):
            return ip_address(text).compressed
    except ValueError:
        pass
    last = text.removesuffix(".").rpartition(".")[2]
    if not _NAME.match(text) or _LIKE_A_NUMBER.match(last):
        raise ValueError("the host must be a DNS name or an IP address")
    return text.lower()


def is_every_address(host: str) -> bool:
    """Whether a listener bound to this address is reached at every one of the machine."""
    try:
        return ip_address(host.partition("%")[0]).is_unspecified
    except ValueError:
        return False


def is_public(host: str) -> bool:
    """Whether a listener bound to this address can be reached from outside.

    Every address of the machine counts, and whatever is not known to be
    loopback, private (mesh networks are: RFC 1918, RFC 6598, unique local) or
    link-local.
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return True
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_unspecified or address.is_global
