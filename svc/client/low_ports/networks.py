"""Which network of loopback addresses each user has.

It is kept on disk and never given to anybody else: what a program finds at an address of its user
was put there by that user, also after the helper or the machine was started again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from ipaddress import IPv4Network
from pathlib import Path

from attrs import define

from svc.errors import ConfigError, Fault, SvcError
from svc.model.session.local_ports import LOOPBACK
from svc.runtime import durable

NAME = "networks.json"
VERSION = 1
PREFIX = 22
"""1016 addresses a user: none ends with 0 or 255."""

MOST = 1 << (PREFIX - LOOPBACK.prefixlen)
MAX_UID = (1 << 32) - 2
_MAX_BYTES = 1 << 20


class NoNetworkLeft(SvcError):
    """Every network belongs to somebody."""

    fault = Fault.EXHAUSTED
    reason = "no_network_left"


@define(eq=False)
class UserNetworks:
    """The networks that were given, by uid.

    Attributes:
        path: Their file.
    """

    path: Path
    _given: dict[int, int]

    @classmethod
    def load(cls, directory: Path) -> UserNetworks:
        """Those of *directory*.  Blocks for the disk.

        Raises:
            ConfigError: the file cannot be read, or is damaged: without it users would get the
                addresses of others.
        """
        path = directory / NAME
        try:
            with durable.open_regular(path) as file:
                data = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return cls(path, {})
        except OSError as error:
            raise ConfigError(str(path), (error.strerror or "cannot be read").lower()) from None
        return cls(path, _read(path, data))

    def of(self, uid: int) -> IPv4Network | None:
        """The network of a user; None while it has none."""
        number = self._given.get(uid)
        return None if number is None else _network(number)

    def give(self, uid: int) -> IPv4Network:
        """The network of a user, which has one from now on.  Blocks for the disk.

        Raises:
            NoNetworkLeft: there are as many users as networks.
            OSError: it cannot be written down; nothing was given.
        """
        found = self.of(uid)
        if found is not None:
            return found
        taken = set(self._given.values())
        first = int.from_bytes(sha256(str(uid).encode()).digest()[:8], "big")
        free = (one % MOST for one in range(first, first + MOST) if one % MOST not in taken)
        number = next(free, None)
        if number is None:
            raise NoNetworkLeft(
                f"each of the {MOST} networks belongs to a user of this machine; remove entries of "
                f"users who are gone from {self.path}, and restart svc-client-net"
            )
        given = {**self._given, uid: number}
        document = {"version": VERSION, "networks": {str(one): given[one] for one in sorted(given)}}
        durable.replace(self.path, json.dumps(document, indent=1).encode("ascii") + b"\n")
        self._given = given
        return _network(number)


def _network(number: int) -> IPv4Network:
    size = 1 << (32 - PREFIX)
    return IPv4Network((int(LOOPBACK.network_address) + number * size, PREFIX))


def _read(path: Path, data: bytes) -> dict[int, int]:
    try:
        document = json.loads(data)
        if len(data) > _MAX_BYTES or document["version"] != VERSION:
            raise ValueError("another form")
        return _checked(document["networks"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(
            str(path),
            "is damaged, or of a later version; restore it, or move it away: residents then get "
            "other addresses for ports below 1024",
        ) from None


def _checked(networks: Mapping[str, int]) -> dict[int, int]:
    given = {int(uid): number for uid, number in networks.items() if type(number) is int}
    are_numbers = all(0 <= number < MOST for number in given.values())
    are_uids = all(0 <= uid <= MAX_UID for uid in given)
    if len(set(given.values())) != len(networks) or not are_numbers or not are_uids:
        raise ValueError("no network has two users")
    return given
