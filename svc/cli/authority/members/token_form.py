"""How a join token is printed, and what its bearer is told to type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svc.cli.output import moment
from svc.proto.gate.v1 import admin_pb2 as pb

if TYPE_CHECKING:
    from svc.config import RoleSettings


def proxy_address(settings: RoleSettings) -> str:
    """Where a Proxy is dialed, if this very configuration is a Proxy's or a person's too."""
    from svc.config import Address

    listen, names = settings.endpoints.public_listen, settings.endpoints.public_names
    if listen is None or not listen.port:
        known = settings.endpoints.proxy
        return str(known[0]) if known else "HOST:PORT"
    if names:
        return str(Address(names[0], listen.port))
    return str(Address("HOST", listen.port) if listen.host in ("0.0.0.0", "::") else listen)


def token_form(answer: pb.TokenResponse, **about: str) -> dict[str, object]:
    """A token for programs, after what it is about."""
    return {
        **about,
        "token": answer.token,
        "expires_at": moment(answer.expires_at),
        "ca_pin": answer.ca_pin,
    }
