"""A Proxy's connections to Authorities; a peer that is no Authority of the cluster is logged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import evolve

from svc.compose.listeners.limits import log_problems, wire_limits
from svc.compose.node import keepalive
from svc.config import Address, RoleSettings
from svc.errors import SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.messages.snapshot import MAX_FRAME_BYTES
from svc.model.certificate import CertificateRefused
from svc.model.principal import Role
from svc.pki.identity import TransportIdentity
from svc.pki.tls import client_context
from svc.rpc.client.channel import dial
from svc.rpc.client.endpoints import dialed
from svc.rpc.client.tls import TlsEndpoint
from svc.runtime.context import Runtime
from svc.runtime.dial_failure import VERIFY_FAILED

DialAuthority = Callable[[Address], Awaitable[IRpcChannel]]


def authority_addresses(settings: RoleSettings) -> tuple[Address, ...]:
    """Every Authority there is, those for failover last, each once."""
    ends = settings.endpoints
    return tuple(dict.fromkeys((*ends.authority, *ends.authority_failover)))


def authority_dial(
    runtime: Runtime, settings: RoleSettings, identity: TransportIdentity
) -> DialAuthority:
    """Dials a control address, and says of a wrong certificate at which (G-HA-08)."""
    pings = keepalive(runtime, settings)
    # A snapshot is one message, and comes from whom we take every decision.
    limits = evolve(wire_limits(settings), max_message=MAX_FRAME_BYTES)

    async def to_authority(address: Address) -> IRpcChannel:
        refused: list[SvcError] = []
        context = client_context(
            identity.verifier, identity, roles=frozenset({Role.AUTHORITY}), refused=refused.append
        )
        try:
            return await dial(
                TlsEndpoint(context.begin, dialed(runtime.reactor, address)),
                runtime.reactor,
                authority="authority",
                keepalive=pings,
                headers=runtime.traces.headers,
                handshake_secs=settings.limits.handshake_secs,
                limits=limits,
                on_problem=log_problems(runtime.reactor, "endpoints.authority", str(address)),
            )
        except SvcError as failed:
            raise _named(address, failed, refused) from None

    return to_authority


def _named(address: Address, failed: SvcError, refused: list[SvcError]) -> SvcError:
    if not refused and VERIFY_FAILED in failed.text:
        refused.append(
            CertificateRefused("its certificate was not issued under this cluster's root")
        )
    if not refused:
        return failed
    why = refused[-1]
    return CertificateRefused(
        f"endpoints.authority: {address} is not an Authority of this cluster: {why.text}",
        reason=why.reason,
    )
