"""What the helper does for a user: it names the user's network, and binds sockets within it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from ipaddress import IPv4Address
from typing import Any

from attrs import define
from twisted.logger import Logger

from svc.client.low_ports.networks import UserNetworks
from svc.client.low_ports.words import ADDRESS_IN_USE, BIND, NETWORK, NOT_YOURS
from svc.errors import Denied, Fault, Malformed, SvcError
from svc.model.session.local_ports import LOWEST_FREE

_log = Logger(namespace="svc_client")

HasAccount = Callable[[int], Awaitable[bool]]
"""``await has_account(uid)``: whether the machine knows the user; raises SvcError if it is late."""


class BindRefused(SvcError):
    """The kernel does not bind the socket."""

    fault = Fault.PRECONDITION
    reason = "bind_refused"


@define
class PortBinder:
    """Answers questions.

    Attributes:
        has_account: Asked once of each user: subordinate ids, of which a user has
            thousands, get no networks.
    """

    networks: UserNetworks
    has_account: HasAccount

    async def answer(
        self, uid: int, question: Mapping[str, Any], given: int | None
    ) -> dict[str, Any]:
        """Answer a question of the user *uid*.

        Args:
            given: The descriptor that came with it, which stays open.

        Raises:
            SvcError: it is refused.
        """
        match question.get("ask"):
            case "network":
                return {NETWORK: await self._network(uid)}
            case "bind":
                address, port = _wanted(question)
                self._check_own(uid, address)
                bind(given, str(address), port)
                _log.info("bound", uid=uid, address=str(address), port=port)
                return {"bound": True}
        raise Malformed(f"svc-client-net: a question asks for {NETWORK} or {BIND}")

    async def _network(self, uid: int) -> str:
        found = self.networks.of(uid)
        if found is None:
            if not await self.has_account(uid):
                raise Denied(f"uid {uid} has no account on this machine", reason="no_account")
            try:
                found = self.networks.give(uid)
            except OSError as error:
                raise SvcError(
                    f"{self.networks.path}: cannot be written: {error.strerror}; free room there",
                    reason="networks_unwritten",
                    fault=Fault.UNAVAILABLE,
                ) from None
            _log.info("network given", uid=uid, network=str(found))
        return str(found)

    def _check_own(self, uid: int, address: IPv4Address) -> None:
        own = self.networks.of(uid)
        if own is None or address not in own:
            whose = "has no network yet" if own is None else f"has {own}"
            raise Denied(
                f"{address} is no address of uid {uid}, which {whose}; restart svc up",
                reason=NOT_YOURS,
            )


def _wanted(question: Mapping[str, Any]) -> tuple[IPv4Address, int]:
    """The address and the port of a question.

    Raises:
        Malformed: one of them is none, or the port is not below 1024.
    """
    text, port = question.get("address"), question.get("port")
    try:
        address = IPv4Address(text) if isinstance(text, str) else None
    except ValueError:
        address = None
    if address is None:
        raise Malformed("address: must be an IPv4 address")
    if type(port) is not int or not 0 < port < LOWEST_FREE:
        raise Malformed(f"port: must be a number from 1 to {LOWEST_FREE - 1}")
    return address, port


def bind(given: int | None, address: str, port: int) -> None:
    """Bind the TCP socket *given*, through a descriptor of its own.

    Raises:
        Malformed: there is no socket, or one of another kind.
        BindRefused: the kernel refuses.
    """
    if given is None:
        raise Malformed("bind: no socket came with the question")
    try:
        asked = socket.socket(fileno=os.dup(given))
    except OSError:
        raise Malformed("bind: what came with the question is not a socket") from None
    with closing(asked):
        # None of these can be changed any more, whatever the user does with the socket meanwhile.
        sort = (asked.family, asked.type, asked.proto)
        if sort != (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP):
            raise Malformed("bind: the socket is not one of TCP over IPv4")
        try:
            asked.bind((address, port))
        except OSError as error:
            raise _refused(f"{address}:{port}", error) from None


def _refused(where: str, error: OSError) -> SvcError:
    match error.errno:
        case errno.EADDRINUSE:
            return BindRefused(f"{where}: in use", reason=ADDRESS_IN_USE)
        case errno.EACCES:
            return BindRefused(
                f"{where}: svc-client-net lacks CAP_NET_BIND_SERVICE; install its unit again with "
                "svc service install client-net",
                reason="helper_unprivileged",
            )
    why = (error.strerror or type(error).__name__).lower()
    return BindRefused(f"{where}: cannot be bound: {why}")
