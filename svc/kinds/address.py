"""Reading ``host:port`` from a resource's table, and writing it back the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv6Address

from svc.errors import ConfigError
from svc.model.host import read_host

_PORT = re.compile(r"[0-9]{1,5}\Z")


def read_address(table: Mapping[str, object], path: str, default_port: int | None) -> str:
    """The table's ``address`` in its one form: ``host:port``, IPv6 in brackets.

    Raises:
        ConfigError: naming ``<path>.address``.
    """
    where = f"{path}.address"
    text = table.get("address")
    if not isinstance(text, str) or not text:
        raise ConfigError(where, 'required: a string such as "db1.internal:5432"')
    host, port_text = _split(text, where)
    if port_text is None:
        if default_port is None:
            raise ConfigError(where, "the port is missing; write host:port")
        return f"{host}:{default_port}"
    if not _PORT.match(port_text) or not 0 < int(port_text) <= 65535:
        raise ConfigError(where, "the port is not a number from 1 to 65535")
    return f"{host}:{int(port_text)}"


def refuse_unknown(table: Mapping[str, object], known: frozenset[str], path: str) -> None:
    """Refuse keys that the kind does not know, each by its full path."""
    unknown = sorted(set(table) - known)
    if unknown:
        raise ConfigError(f"{path}.{unknown[0]}", "this kind of resource has no such key")


@lru_cache(4096)
def split_address(address: str) -> tuple[str, int]:
    """Host (without brackets) and port of what :func:`read_address` gave."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _split(text: str, where: str) -> tuple[str, str | None]:
    """The host as it will be kept, and the port's text if there is one."""
    if text.startswith("["):
        literal, bracket, rest = text[1:].partition("]")
        try:
            host = f"[{IPv6Address(literal).compressed}]"
        except ValueError:
            raise ConfigError(where, "the text in brackets is not an IPv6 address") from None
        if not bracket or (rest and not rest.startswith(":")):
            raise ConfigError(where, "after an IPv6 address in brackets, write :port or nothing")
        return host, rest[1:] if rest else None
    if text.count(":") > 1:
        raise ConfigError(where, "write an IPv6 address in brackets: [::1]:22")
    host, colon, port_text = text.partition(":")
    try:
        return read_host(host), port_text if colon else None
    except ValueError as error:
        raise ConfigError(where, str(error)) from None
