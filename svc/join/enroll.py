"""Gets a first identity, for nodes and people alike.

A joiner knows the pin of the cluster root and holds a one-use token.  It
speaks TLS to Authority, checked against the pin before the token leaves: on
Authority's join listener itself, or inside the join lane of a Proxy, which
sees ciphertext only (rule R5).  The token is never logged, and never used
once an identity exists.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from cryptography.hazmat.primitives.asymmetric import ed25519
from twisted.internet.interfaces import (
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc import __version__
from svc.config import Address, RoleSettings
from svc.errors import ConfigError, Fault, SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.join.answer import Enrolled, KeptAnswer
from svc.join.channel import PinnedCluster, ask_directly, ask_through_proxy
from svc.model.audit.spool import prove_audit_key
from svc.model.certificate import CertificateRefused
from svc.model.clocks import ClockWrong
from svc.model.cluster.token import JoinToken, TokenRefused, parse_token
from svc.model.principal import Role
from svc.pki.files import read_private
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import make_request, prove_key
from svc.proto.gate.v1 import bootstrap_pb2 as pb
from svc.rpc.client.endpoints import dialed
from svc.rpc.connection import HANDSHAKE_SECONDS
from svc.runtime.backoff import Backoff
from svc.runtime.context import Runtime

ENROLL_METHOD = "/gate.v1.Bootstrap/Enroll"

_log = Logger(namespace="svc_join")

_ENROLL_SECS = 25.0
KEY_REFUSED = "key_refused"
"""Authority's word for a key that may not join without a token."""

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_LONGEST_ASKED_WAIT = 300.0
"""Whoever says when to come again is waited for no longer."""

_TRY_AGAIN = (Fault.UNAVAILABLE, Fault.DEADLINE, Fault.CANCELLED, Fault.EXHAUSTED, Fault.ABORTED)


@frozen
class JoinRequest:
    """What a joiner says.

    Attributes:
        pin: SHA-256 of the cluster root in hex.
        token: None: a node joins by the key of its request alone.
        cluster: Which cluster it must be; empty: the one the pinned root names.
        audit_public_key: A node's Ed25519 key, raw; empty for persons.
        audit_proof: :func:`svc.model.audit.spool.prove_audit_key` of it and *csr*.
    """

    pin: str
    token: JoinToken | None
    csr: bytes
    cluster: str = ""
    audit_public_key: bytes = b""
    audit_proof: bytes = b""
    version: str = __version__


async def enroll_direct(
    endpoint: IStreamClientEndpoint,
    clock: IReactorTime,
    now: Callable[[], float],
    asking: JoinRequest,
    handshake_secs: float = HANDSHAKE_SECONDS,
) -> Enrolled:
    """Enroll with the Authority whose join listener *endpoint* reaches.

    Args:
        endpoint: A byte stream without TLS; the TLS is added here.
        handshake_secs: For that TLS.

    Raises:
        CertificateRefused: whoever answered is no authority under the pinned root;
            the token was not sent.
        ClockWrong: this machine's clock and Authority's are too far apart; the token is good still.
        SvcError: Authority's refusal (``token_refused``), or how it was not reached.
    """
    pinned = PinnedCluster(asking.pin.lower(), asking.cluster, now)
    return await ask_directly(
        endpoint, clock, pinned, lambda channel: enroll_over(channel, now, asking), handshake_secs
    )


async def enroll_through_proxy(
    endpoint: IStreamClientEndpoint,
    clock: IReactorTime,
    now: Callable[[], float],
    asking: JoinRequest,
    handshake_secs: float = HANDSHAKE_SECONDS,
    *,
    plaintext: bool = False,
) -> Enrolled:
    """Enroll inside the join lane of the Proxy that *endpoint* reaches.

    Args:
        endpoint: A byte stream without TLS.
        handshake_secs: For the TLS to the Proxy, and for that to Authority inside it.
        plaintext: The Proxy's listener is without TLS; the inner TLS is the same.

    Raises:
        SvcError: as :func:`enroll_direct`, and the Proxy's own refusals.
    """
    pinned = PinnedCluster(asking.pin.lower(), asking.cluster, now)
    return await ask_through_proxy(
        endpoint,
        clock,
        pinned,
        lambda channel: enroll_over(channel, now, asking),
        handshake_secs,
        plaintext=plaintext,
    )


async def enroll_over(
    channel: IRpcChannel, now: Callable[[], float], asking: JoinRequest
) -> Enrolled:
    """Make the one call of an enrollment.

    Raises:
        SvcError: Authority's refusal (``token_refused``).
    """
    request = pb.EnrollRequest(
        token="" if asking.token is None else asking.token.text,
        csr=asking.csr,
        audit_public_key=asking.audit_public_key,
        audit_proof=asking.audit_proof,
        version=asking.version,
        sent_at_ms=int(now() * 1000),
    )
    answer = await channel.unary(ENROLL_METHOD, request, pb.EnrollResponse, timeout=_ENROLL_SECS)
    if asking.cluster and answer.cluster != asking.cluster:
        raise CertificateRefused(
            "the answer came from a different cluster than the configured one",
            reason="certificate_cluster",
        )
    return Enrolled.of(answer)


def read_token(path: Path) -> JoinToken:
    """The token in a private file.  Blocks for the disk.

    Raises:
        ConfigError: the file is missing, or others may read it.
        TokenRefused: it holds no token.
    """
    text = read_private(path, os.geteuid()).decode("utf-8", "replace")
    if not text.strip():
        raise TokenRefused(
            f"{path}: is empty: the command that writes the join token into it failed, or did not "
            "run yet; run it again"
        )
    try:
        return parse_token(text)
    except TokenRefused as refusal:
        raise TokenRefused(f"{path}: {refusal.text}") from None


async def join_node(
    runtime: Runtime,
    settings: RoleSettings,
    store: IdentityStore,
    role: Role,
    ways: tuple[Callable[[JoinRequest], Awaitable[Enrolled]], ...] = (),
) -> TransportIdentity:
    """The identity of a node: the one on disk, or else the one it gets with its token.

    Tries for ever while nobody answers, or this machine's clock is wrong (it may
    be set soon after the machine's start), waiting longer each time; a refusal
    ends it.  Once an identity exists token and pin are not even read.

    Args:
        role: What the node means to become.
        ways: How Authority is reached; by default as the configuration says.

    Raises:
        ConfigError: there is neither an identity nor a token to get one.
        SvcError: Authority refused, or is not the one that the pin names.
    """
    if store.exists:
        store.forget_answer()
        return TransportIdentity.load(store, runtime.now, settings.cluster)
    asking, key = _asking(settings, store, role)
    kept = KeptAnswer(store, asking.token)
    enrolled = kept.read() or await _enrolled(
        runtime, asking, key, ways or _ways(runtime, settings)
    )
    kept.write(enrolled)
    identity = kept.adopt(
        enrolled,
        cluster=settings.cluster,
        pin=asking.pin,
        roles=frozenset({role}),
        now=runtime.now,
    )
    store.forget_answer()
    _log.info("joined the cluster", node=identity.principal.id, name=enrolled.name)
    return identity


async def _enrolled(
    runtime: Runtime,
    asking: JoinRequest,
    key: Any,
    ways: tuple[Callable[[JoinRequest], Awaitable[Enrolled]], ...],
) -> Enrolled:
    """Authority's answer, however long it takes to come."""
    waits = Backoff(_FIRST_WAIT, _LONGEST_WAIT, runtime.jitter)
    while True:
        try:
            return await ways[waits.failures % len(ways)](asking)
        except SvcError as e:
            _check_again(e, key)
            _log.warn("joining failed; retrying", reason=e.reason, error=e.text)
            wait = min(e.retry_after or 0.0, _LONGEST_ASKED_WAIT)
        await deferLater(runtime.reactor, wait + waits.next())


def _asking(settings: RoleSettings, store: IdentityStore, role: Role) -> tuple[JoinRequest, Any]:
    join = settings.join
    if join.ca_pin is None or (join.token_file is None and not join.by_key):
        raise ConfigError(
            "join.token_file",
            "no identity in state_dir yet; set a join token and join.ca_pin",
        )
    token = None if join.token_file is None else read_token(Path(join.token_file))
    key = store.pending_key()
    asking = JoinRequest(
        pin=join.ca_pin, token=token, csr=make_request(key), cluster=settings.cluster
    )
    return (with_audit_key(asking, store.audit_key()) if role.is_node else asking), key


def with_audit_key(asking: JoinRequest, key: ed25519.Ed25519PrivateKey) -> JoinRequest:
    """A node's request: it also contains its audit key and a proof that the node holds it."""
    public = key.public_key().public_bytes_raw()
    proof = prove_audit_key(key, asking.csr)
    return evolve(asking, audit_public_key=public, audit_proof=proof)


def _check_again(refusal: SvcError, key: Any) -> None:
    """Raise what asking again does not change; a key is named, and stays for the next start."""
    if refusal.reason == KEY_REFUSED:
        digest = prove_key(make_request(key)).sha256.hex()
        text = f"{refusal.text}; the SHA-256 of this node's key is {digest}"
        raise SvcError(text, reason=refusal.reason, fault=refusal.fault)
    if refusal.fault not in _TRY_AGAIN and refusal.reason != ClockWrong.reason:
        raise refusal


def _ways(
    runtime: Runtime, settings: RoleSettings
) -> tuple[Callable[[JoinRequest], Awaitable[Enrolled]], ...]:
    reactor, now, secs = runtime.reactor, runtime.now, settings.limits.handshake_secs

    def direct(address: Address) -> Callable[[JoinRequest], Awaitable[Enrolled]]:
        return lambda asking: enroll_direct(dialed(reactor, address), reactor, now, asking, secs)

    def lane(address: Address) -> Callable[[JoinRequest], Awaitable[Enrolled]]:
        return lambda asking: enroll_through_proxy(
            dialed(reactor, address), reactor, now, asking, secs
        )

    if settings.join.authority is not None:
        return (direct(settings.join.authority),)
    if settings.endpoints.proxy:
        return tuple(lane(address) for address in settings.endpoints.proxy)
    raise ConfigError("join.authority", "required to join: Authority's join listener")
