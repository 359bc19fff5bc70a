"""Which revision of a key that others trust is in force: in the store, with its signed record."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.logger import Logger

from svc.audit.state.key_tables import KEYS
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, node
from svc.authority.state.tables import StateUnsigned
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import CA_ACTIVATE
from svc.model.cluster.key_revision import KeyRevision, KeyState
from svc.pki.root import ClusterKeys

OUTSIDE = ("jwt", "onward-ssh")
"""Signing keys that targets trust, and so count as CAs: those of tokens and of SSH certificates."""

_log = Logger(namespace="svc_authority")


@define
class OutsideKeyRevisions:
    """Enters what the leader signs with, and says where this Authority signs with another one.

    Attributes:
        keys: What is signed with; who loads newer ones is another's matter.
        is_stale: Told for each kind whether another certificate than ours is in force.
    """

    keys: ClusterKeys
    state_cache: ClusterStateCache
    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    is_stale: Callable[[str, bool], object]

    async def follow(self, *, leads: bool) -> None:
        """One pass.

        Raises:
            StoreUnavailable: a revision was not entered; the next pass tries again.
        """
        for kind in OUTSIDE:
            used = self.keys.purposes.get(kind)
            if used is None:
                continue  # a cluster of before this key
            if leads and pem(used.certificate) not in known(self.state_cache.state.keys, kind):
                await self._enter(kind, used.certificate)
            wanted = in_force(self.state_cache.state.keys, kind)
            self.is_stale(kind, wanted is not None and wanted.certificate != pem(used.certificate))

    async def _enter(self, kind: str, certificate: x509.Certificate) -> None:
        try:
            await self.store.run(
                "enter a key",
                lambda tx: enter_revision(tx, self.recorder, kind, certificate, self.now()),
            )
        except StateUnsigned as refused:
            _log.error("a key cannot be entered", kind=kind, reason=refused.text)
            return
        await self.state_cache.refresh()


def enter_revision(
    tx: ITransaction, recorder: Recorder, kind: str, certificate: x509.Certificate, at: float
) -> KeyRevision:
    """Put a certificate in force as the next revision of its kind, unless it was one already.

    Raises:
        StateUnsigned: a row of this kind is not what was signed for.
    """
    text = pem(certificate)
    # All of them: our signature goes under nothing that somebody else put there or took away.
    for one in recorder.rows(tx).keys(kind):
        if one.certificate == text:
            return one
    before = tx.keyrings.active(kind)
    added = tx.keyrings.add(kind, text, at)
    entered = tx.keyrings.enter(kind, added.revision, KeyState.ACTIVE, at)
    revisions = [one.revision for one in (before, entered) if one is not None]
    recorder.append(
        tx,
        CA_ACTIVATE,
        node(recorder.origin),
        node_id=recorder.origin,
        details={
            "key_purpose": kind,
            "generation": entered.revision,
            "certificate_sha256": certificate.fingerprint(SHA256()).hex(),
        },
        state=[KEYS.now(tx, f"{kind}:{revision}") for revision in revisions],
    )
    return entered


def in_force(keys: Mapping[str, KeyRevision], kind: str) -> KeyRevision | None:
    """The active revision of a kind, among those that signed records cover."""
    active = (one for one in keys.values() if one.kind == kind and one.state is KeyState.ACTIVE)
    return max(active, key=lambda one: one.revision, default=None)


def known(keys: Mapping[str, KeyRevision], kind: str) -> set[str]:
    """The certificates of a kind that are or were in force."""
    return {one.certificate for one in keys.values() if one.kind == kind}


def pem(certificate: x509.Certificate) -> str:
    """A certificate as revisions have it."""
    return certificate.public_bytes(Encoding.PEM).decode("ascii")
