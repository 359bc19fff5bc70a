"""The keys that an Authority signs with: those in force, those loaded, those distributed."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from svc.audit.checkpoint.signer import HeadWriter
from svc.authority.enroll.issuers import IssuerRotation
from svc.authority.enroll.revisions import OutsideKeyRevisions
from svc.authority.enroll.rotation import SigningKeyRotation
from svc.authority.recordings.key import RecordingKeys
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.writer import StateWriter
from svc.compose.authority.distribution import RootRooms, root_rooms
from svc.compose.authority.parts import Parts
from svc.compose.authority.state import anchor_key, origin_key
from svc.compose.telemetry import StaleKinds, key_meter
from svc.pki.issue import IssuingAuthority
from svc.pki.keyring import load_issuer, newer_purpose
from svc.pki.root import PurposeKey
from svc.runtime.threads import in_pool


@frozen
class KeyWiring:
    """What follows the keys at each reload pass, of whoever leads and of who stands by.

    Attributes:
        stale: Which kinds of CA are not signed with as they are in force.
        roots: The distribution root.
    """

    issuers: IssuerRotation
    outside: OutsideKeyRevisions
    stale: StaleKinds
    roots: RootRooms

    async def follow(self, *, leads: bool) -> None:
        """One pass.

        Raises:
            StoreUnavailable: something was not entered; the next pass tries again.
        """
        # Whoever has just begun to lead may have older keys than those that are distributed.
        await self.roots.key_sets.follow()
        await self.issuers.follow(leads=leads)
        await self.outside.follow(leads=leads)
        if leads:
            await self.roots.key_sets.lead()


def key_wiring(
    p: Parts,
    state_cache: ClusterStateCache,
    writer: StateWriter,
    recording: Callable[[], RecordingKeys],
) -> KeyWiring:
    """Wire it.

    Args:
        recording: The keys that recordings are sealed to.
    """
    stale = StaleKinds(p.metrics)
    return KeyWiring(
        issuers=issuers_in_force(p, state_cache, stale),
        outside=outside_keys_in_force(p, state_cache, stale),
        stale=stale,
        roots=root_rooms(p, writer, recording),
    )


def issuers_in_force(p: Parts, state_cache: ClusterStateCache, stale: StaleKinds) -> IssuerRotation:
    """The issuing CAs of ``keys/``, as the store's revisions say."""
    runtime = p.runtime

    def load(kind: str) -> IssuingAuthority:
        return load_issuer(p.state / "keys", kind, p.keys.root, runtime.now, runtime.entropy)

    return IssuerRotation(
        issuer=p.issuer,
        state_cache=state_cache,
        store=p.store,
        recorder=p.recorder,
        now=runtime.now,
        load=load,
        in_thread=in_pool(runtime.reactor),
        is_stale=stale.told_by("issuers"),
    )


def outside_keys_in_force(
    p: Parts, state_cache: ClusterStateCache, stale: StaleKinds
) -> OutsideKeyRevisions:
    """The keys that targets trust, as the store's revisions say."""
    return OutsideKeyRevisions(
        keys=p.keys,
        state_cache=state_cache,
        store=p.store,
        recorder=p.recorder,
        now=p.runtime.now,
        is_stale=stale.told_by("revisions"),
    )


def signing_key_rotation(
    p: Parts, state_cache: ClusterStateCache, heads: HeadWriter, stale: StaleKinds
) -> SigningKeyRotation:
    """The keys of ``keys/`` that this Authority signs with itself."""
    runtime, issuer = p.runtime, p.issuer

    def load(used: PurposeKey) -> PurposeKey | None:
        return newer_purpose(p.state / "keys", used, p.keys.root, runtime.now, runtime.entropy)

    def taken(_word: str) -> None:
        # Snapshots and grants are signed by whichever key is the newest.
        p.recorder.sign_with(origin_key(p.keys))
        heads.sign_with(anchor_key(p.keys))

    def issuers() -> dict[str, float]:
        return {
            kind: one.certificate.not_valid_after_utc.timestamp()
            for kind, one in issuer.keys.issuers.items()
        }

    return SigningKeyRotation(
        keys=p.keys,
        issuers=issuers,
        load=load,
        now=runtime.now,
        in_thread=in_pool(runtime.reactor),
        taken=taken,
        is_stale=stale.told_by("keys"),
        ends_in=key_meter(p.metrics),
        is_paused=lambda: state_cache.state.pause is not None,
    )
