"""The audit log as an outsider verifies it: from the store, the anchor and the root alone.

The store is read directly, so the Authority may run or not; nothing is trusted
of what it would say of itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from svc.audit.anchor import AnchorDirectory
from svc.audit.verify import PersonalOf, Verified, verify
from svc.compose.store_place import store_place
from svc.config import RoleSettings
from svc.errors import AuditBroken, ConfigError, SvcError
from svc.interfaces.audit import HeadVerifier
from svc.interfaces.facets import IAuditLog
from svc.interfaces.store import ITransaction
from svc.model.ledger import ChainRow, PersonalValue
from svc.model.signing import Purpose, Signed
from svc.pki.files import load_certificates
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import der
from svc.pki.verify import ChainVerifier

_BATCH = 512
"""Records in memory at a time while the log is verified."""


def verified(settings: RoleSettings, state: Path) -> Verified:
    """Verify over one snapshot.  Heads are taken before it, so none can be beyond its end.

    Called by ``svc authority audit verify`` and by the demo; blocks.

    Args:
        settings: Name the store and the cluster.
        state: The Authority's own state directory.

    Raises:
        AuditBroken: the log does not verify, or what it is verified with is missing.
    """
    place = store_place(settings)
    judge = head_judge(_root(state), settings.cluster)
    keeper = AnchorDirectory(state / "anchor")
    taken = [(keeper.latest(), keeper.heads())]

    def look(tx: ITransaction) -> Verified:
        # The store may run this again; the heads of the first run are used up by then.
        latest, heads = taken.pop() if taken else (keeper.latest(), keeper.heads())
        return verify(
            _batches(tx.audit),
            heads,
            judge,
            latest=latest,
            personal_of=_personal(tx.audit),
            cluster=settings.cluster,
        )

    return place.look("audit verify", look)


def head_judge(root: bytes, cluster: str) -> HeadVerifier:
    """Judges each head's signature as of the head's own time, under *root*.

    Raises:
        CertificateRefused: *root* is not the cluster's.
    """
    moments = [0.0]
    verifier = ChainVerifier(cluster, root, lambda: moments[0])

    def judge(signed: Signed, at: float) -> object:
        moments[0] = at
        return verifier.verify_signed(signed, Purpose.AUDIT_HEAD)

    return judge


def _batches(log: IAuditLog) -> Iterator[Sequence[ChainRow]]:
    """The rows in order.  One that cannot be read is named by its number."""
    after = 0
    while True:
        try:
            rows = log.rows(after + 1, _BATCH)
        except Exception as failed:
            yield from _singly(log, after + 1)
            raise _unreadable(after + 1, failed) from failed
        if not rows:
            return
        yield rows
        after = rows[-1].seq


def _singly(log: IAuditLog, first: int) -> Iterator[Sequence[ChainRow]]:
    """The rows up to the one that cannot be read."""
    for seq in range(first, first + _BATCH):
        try:
            rows = log.rows(seq, 1)
        except Exception as failed:
            raise _unreadable(seq, failed) from failed
        if not rows:
            return
        yield rows


def _personal(log: IAuditLog) -> PersonalOf:
    def personal(seq: int) -> Sequence[PersonalValue]:
        try:
            return log.personal(seq)
        except Exception as failed:
            raise _unreadable(seq, failed) from failed

    return personal


def _unreadable(seq: int, failed: Exception) -> AuditBroken:
    """Whatever a damaged store answers is a fault of the log."""
    return AuditBroken(f"audit log: record {seq}: unreadable: {type(failed).__name__}")


def _root(state: Path) -> bytes:
    """DER of the cluster's root, from the identity or the key directory.

    Raises:
        AuditBroken: neither holds one.
        ConfigError: it is there, but cannot be trusted.
    """
    pinned, kept = state / "trust" / "root.pem", state / "keys" / "root.pem"
    uid = _owner(state)
    if os.path.lexists(pinned):
        return IdentityStore(state, uid=uid).load_root()
    if os.path.lexists(kept):
        roots = load_certificates(kept, uid)
        if len(roots) != 1:
            raise ConfigError(str(kept), "holds more than one certificate")
        return der(roots[0])
    raise AuditBroken(
        f"audit log: the cluster's root is missing: neither {pinned} nor {kept} is there; "
        "without it nothing is proved",
        reason="audit_root_missing",
    )


def _owner(state: Path) -> int:
    """Who must own what is read there: we ourselves; for root, whoever the state belongs to."""
    if os.geteuid() != 0:
        return os.geteuid()
    try:
        return os.stat(state).st_uid
    except OSError as failed:
        raise SvcError(f"{state}: {failed.strerror}", reason="no_state_dir") from None
