"""Calls Authority's join listener: directly, or inside the join lane of a Proxy.

Who calls knows the pin of the cluster root and nothing else.  It speaks TLS to
Authority, checked against the pin before anything is said; a Proxy on the way
sees ciphertext only (rule R5).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from attrs import frozen
from OpenSSL import SSL
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from svc.config import Address
from svc.errors import Fault, SvcError, UsageError
from svc.interfaces.rpc import IRpcChannel
from svc.join.lane import opened_lane
from svc.messages.relay import Lane
from svc.model.certificate import CertificateRefused
from svc.pki.handshake import Contexts, PeerVerifier
from svc.pki.join import blame_the_clock
from svc.pki.peers import PinnedRoot
from svc.pki.tls import H2, ClientTLS
from svc.pki.verify import Shown, der_of, root_cluster
from svc.rpc.client.channel import CANNOT_CONNECT, dial
from svc.rpc.client.endpoints import dialed
from svc.rpc.connection import HANDSHAKE_SECONDS
from svc.rpc.endpoint import StreamClientEndpoint
from svc.rpc.status import UNKNOWN_METHOD
from svc.runtime.context import Runtime
from svc.runtime.dial_failure import VERIFY_FAILED

_LANE_SECS = 25.0
_NEXT_PROXY = (Fault.UNAVAILABLE, Fault.DEADLINE)
_T = TypeVar("_T")


@frozen
class PinnedCluster:
    """Accepts an authority of the cluster that the pinned root names.

    Attributes:
        pin: SHA-256 of the cluster root in lower-case hex.
        cluster: Which it must be; empty: whichever the root names.
    """

    pin: str
    cluster: str
    now: Callable[[], float]

    def trusts(self, root: bytes) -> bool:
        """See PeerCheck."""
        return PinnedRoot("", self.pin, self.now).trusts(root)

    def accept(self, chain: Shown) -> None:
        """See PeerCheck."""
        cluster = self.cluster
        root = der_of(chain[-1])
        if not cluster and self.trusts(root):
            # The pin fixes the root, and the root names its cluster.
            cluster = root_cluster(root)
        PinnedRoot(cluster, self.pin, self.now).accept(chain)


@implementer(IOpenSSLClientConnectionCreator)
class _UnverifiedTls:
    """TLS to a Proxy whose certificate a joiner cannot verify yet.

    Used for the join lane alone, and safe there alone: nothing secret is said
    to this hop.  What passes it is the joiner's own TLS to Authority, which is
    checked against the pin before the token is sent; whoever stands in the
    Proxy's place sees that ciphertext and can do no more than cut it.
    """

    def __init__(self) -> None:
        self._contexts = Contexts(None, server=False, alpn=H2, mode=SSL.VERIFY_NONE)

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """Called by Twisted for each connection."""
        return self._contexts.connection(None)


@implementer(IStreamClientEndpoint)
@frozen
class _TlsEndpoint:
    """TLS over another endpoint, all of whose timers are *clock*'s (D3)."""

    tls: IOpenSSLClientConnectionCreator
    below: IStreamClientEndpoint
    clock: IReactorTime

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect; the handshake is the protocol's to wait for."""
        factory = TLSMemoryBIOFactory(self.tls, True, protocolFactory, self.clock)
        connecting: Deferred[Any] = self.below.connect(factory)
        return connecting.addCallback(lambda wrapping: wrapping.wrappedProtocol)


async def ask_directly(
    endpoint: IStreamClientEndpoint,
    clock: IReactorTime,
    pinned: PinnedCluster,
    ask: Callable[[IRpcChannel], Awaitable[_T]],
    handshake_secs: float = HANDSHAKE_SECONDS,
) -> _T:
    """What *ask* gets from the Authority whose join listener *endpoint* reaches.

    Args:
        endpoint: A byte stream without TLS; the TLS is added here.
        handshake_secs: For that TLS.

    Raises:
        CertificateRefused: whoever answered is no authority under the pinned root; *ask* was
            not called.
        SvcError: how it was not reached, or what *ask* raises.
    """
    refused: list[SvcError] = []
    tls = ClientTLS(
        Contexts(None, server=False, alpn=H2),
        PeerVerifier(check=pinned, required=True, alpn=H2, refused=refused.append),
    )

    try:
        channel = await dial(
            _TlsEndpoint(tls, endpoint, clock),
            clock,
            authority="authority",
            handshake_secs=handshake_secs,
        )
    except SvcError as failed:
        if not refused and VERIFY_FAILED in failed.text:
            # A chain without our root, or with another, ends in OpenSSL before
            # the check is asked.
            refused.append(
                CertificateRefused("its certificate was not issued under the pinned root")
            )
        if refused:
            blame_the_clock(refused[-1])
            raise CertificateRefused(
                f"the server is not the Authority pinned by ca_pin: {refused[-1].text}; compare "
                "the pin with the one that `svc authority status` shows on the Authority's host",
                reason=refused[-1].reason,
            ) from None
        raise
    try:
        return await ask(channel)
    finally:
        await channel.close()


async def ask_through_proxy(
    endpoint: IStreamClientEndpoint,
    clock: IReactorTime,
    pinned: PinnedCluster,
    ask: Callable[[IRpcChannel], Awaitable[_T]],
    handshake_secs: float = HANDSHAKE_SECONDS,
    *,
    plaintext: bool = False,
) -> _T:
    """As :func:`ask_directly`, inside the join lane of the Proxy that *endpoint* reaches.

    Args:
        endpoint: A byte stream without TLS.
        handshake_secs: For the TLS to the Proxy, and for that to Authority inside it.
        plaintext: The Proxy's listener is without TLS; the inner TLS is the same.

    Raises:
        SvcError: as :func:`ask_directly`, and the Proxy's own refusals.
    """
    outer = endpoint if plaintext else _TlsEndpoint(_UnverifiedTls(), endpoint, clock)
    channel = await dial(
        outer, clock, authority="proxy", plaintext=plaintext, handshake_secs=handshake_secs
    )
    try:
        lane = StreamClientEndpoint(lambda: opened_lane(channel, Lane.JOIN, clock, _LANE_SECS))
        return await ask_directly(lane, clock, pinned, ask, handshake_secs)
    finally:
        await channel.close()


_CHECK = "; check that this is the address of a Proxy, and that the Proxy runs"


async def ask_authority(
    runtime: Runtime,
    pinned: PinnedCluster,
    proxies: tuple[Address, ...],
    authority: Address | None,
    ask: Callable[[IRpcChannel], Awaitable[_T]],
) -> _T:
    """What *ask* gets from Authority: directly where its address is given, else by a Proxy.

    The next Proxy is tried only where one is not reached, or does not reach Authority.

    Raises:
        SvcError: as :func:`ask_through_proxy`, of the last one.
    """
    clock = runtime.reactor
    if authority is not None:
        return await ask_directly(dialed(clock, authority), clock, pinned, ask)
    problem: SvcError = UsageError("--proxy: required")
    for proxy in proxies:
        try:
            return await ask_through_proxy(dialed(clock, proxy), clock, pinned, ask)
        except SvcError as e:
            if e.reason == UNKNOWN_METHOD:
                text = "what answers there is no Proxy, or an older one; check the address"
                problem = SvcError(f"{proxy}: {text}", reason=e.reason, fault=e.fault)
                continue
            if e.fault not in _NEXT_PROXY or e.reason.startswith("provider_"):
                raise
            hint = _CHECK if e.reason == CANNOT_CONNECT else ""
            problem = SvcError(f"{proxy}: {e.text}{hint}", reason=e.reason, fault=e.fault)
    raise problem
