"""Stores a first identity, after the last checks.

Used by every joiner, nodes and persons alike, once Authority has answered; and
by an Authority that signs its own leaf.  Nothing is written unless all of it
is what was asked for.
"""

from __future__ import annotations

from collections.abc import Set

from cryptography.hazmat.primitives.asymmetric import ec

from svc.errors import SvcError
from svc.model.certificate import EXPIRED, NOT_YET_VALID, CertificateRefused
from svc.model.clocks import ClockWrong
from svc.model.cluster.token import TokenGrant
from svc.model.principal import Role
from svc.pki import profile
from svc.pki.enroll import CertificateIssuer
from svc.pki.identity import TransportIdentity, check_material
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import make_request
from svc.pki.verify import ChainVerifier, ca_pin, require_valid


def adopt_identity(
    store: IdentityStore,
    key: ec.EllipticCurvePrivateKey,
    *,
    cluster: str,
    pin: str,
    root: bytes,
    chain: tuple[bytes, ...],
    roles: Set[Role],
    now: profile.WallTime,
) -> TransportIdentity:
    """Check an enrollment's answer, write it, and give the identity.

    Called with ``store.pending_key()`` as *key*; blocks for the disk.

    Args:
        pin: What the operator gave: SHA-256 of the root in hex.
        root: DER, as Authority answered.
        chain: DER: leaf, issuing CA, as Authority answered.
        roles: What the joiner meant to become.

    Raises:
        CertificateRefused: another root than the pin's, another key, cluster
            or role, or not valid now; nothing was written.
    """
    if ca_pin(root) != pin.lower():
        raise CertificateRefused("the answer contains a different root from the pinned one")
    verifier = ChainVerifier(cluster, root, now)
    material = check_material(key, chain, verifier)
    require_valid(material.facts, now(), roles)
    store.pin(root)
    store.write(key, chain)
    return TransportIdentity(material, verifier, now)


def blame_the_clock(refusal: SvcError) -> None:
    """Say it of a chain that ends in the pinned root and is an Authority's, at another time.

    Raises:
        ClockWrong: that is all there is against it.
    """
    if refusal.reason == NOT_YET_VALID:
        text = f"Authority's certificate is not valid yet: {refusal.text}"
    elif refusal.reason == EXPIRED:
        text = (
            f"Authority's certificate has expired: {refusal.text}; an Authority never presents an "
            "expired certificate, so this machine's clock is ahead by at least that much: set the "
            "clock; if it is right, tell the operator that someone presents an old certificate"
        )
    else:
        return
    raise ClockWrong(f"{text}; then join again: the token was not sent") from None


def enroll_authority(
    issuer: CertificateIssuer,
    store: IdentityStore,
    now: profile.WallTime,
    *,
    names: tuple[str, ...] = (),
) -> TransportIdentity:
    """The leaf of an Authority that holds the keys itself; blocks for the disk.

    Called at start where there is no identity yet, or an expired one: then it
    keeps its name and counts on.

    Raises:
        ConfigError: for an old identity that cannot be read.
    """
    key = store.pending_key()
    csr = make_request(key)
    if store.exists:
        old = TransportIdentity.load(store, now, issuer.keys.cluster)
        issued = issuer.sign_for(old.principal, csr, old.facts.generation + 1, names)
    else:
        issued = issuer.admit(TokenGrant("", Role.AUTHORITY, names=names), csr)
    return adopt_identity(
        store,
        key,
        cluster=issuer.keys.cluster,
        pin=issuer.keys.ca_pin,
        root=issuer.keys.root_der,
        chain=issued.chain,
        roles=frozenset({Role.AUTHORITY}),
        now=now,
    )
