"""What an Authority's own files say may be trusted: the root, and the records of state by it."""

from __future__ import annotations

from attrs import frozen

from svc.audit.checkpoint.anchor import AnchorDirectory
from svc.audit.state.anchor import StateAnchor
from svc.audit.state.in_force import StateLedger, StateView
from svc.authority.state.cluster import ClusterState
from svc.authority.state.verify import Digests, StateVerifier, Unsigned
from svc.errors import SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.record import SignedHead
from svc.ops.doctor.context import CheckContext, NotChecked
from svc.ops.verify.log import outside_log
from svc.pki.audit_signatures import origin_verifier
from svc.pki.files import load_certificates
from svc.pki.issue import der

MOST_RECORDS = 20_000
"""Records of state that are verified; each takes some 150 µs."""


@frozen
class VerifiedState:
    """The protected rows of one snapshot.

    Attributes:
        state: What is in force.
        unsigned: Rows that are not what a signed record says.
        stored_policy: The version that the store calls active; 0: none.
        unreadable: Tables of which a row says what no such row can.
    """

    state: ClusterState
    unsigned: tuple[Unsigned, ...]
    stored_policy: int
    unreadable: tuple[str, ...] = ()


def root_of(context: CheckContext) -> bytes:
    """DER of the cluster's root, as it is pinned or as the Authority keeps it.

    Raises:
        NotChecked: there is none.
        ConfigError: it cannot be trusted.
    """
    if context.identities.has_root:
        return context.identities.load_root()
    kept = context.keys_root
    if not kept.exists():
        raise NotChecked("there is no root certificate")
    return der(load_certificates(kept, context.uid)[0])


def newest_head(context: CheckContext) -> SignedHead | None:
    """The newest signed head in the anchor directory, its signature verified."""
    if AnchorDirectory(context.state / "anchor").newest() is None:
        return None
    return outside_log(context.settings, context.state).head()


def verified_state(context: CheckContext) -> VerifiedState:
    """Verify the protected rows as a reload pass does, without its records and its log.

    Raises:
        NotChecked: too many records of state would have to be verified first.
        StateBroken: these records do not follow from one another.
    """
    return context.store.once("state", lambda: _verified(context))


def _verified(context: CheckContext) -> VerifiedState:
    checkpoint = StateAnchor(context.state / "anchor").checkpoint() or StateView()
    ledger = StateLedger(origin_verifier(root_of(context), context.settings.cluster))
    ledger.begin_from(checkpoint)

    def look(tx: ITransaction) -> VerifiedState:
        ahead = tx.state.tip() - checkpoint.n
        if ahead > MOST_RECORDS:
            raise NotChecked(f"{ahead} records of state would have to be verified first")
        unreadable: list[str] = []
        verifier = StateVerifier(
            seen=ledger.within(tx.state),
            before=ClusterState(),
            digests=Digests(),
            on_unreadable=lambda table, _: unreadable.append(table),
        )
        state = verifier.state(tx)
        verifier.sweep(tx, context.at)
        return VerifiedState(
            state=state,
            unsigned=tuple(verifier.unsigned.values()),
            stored_policy=verifier.stored_policy,
            unreadable=tuple(unreadable),
        )

    return context.store.look("doctor state", look)


def state_in_force(context: CheckContext) -> ClusterState:
    """The part of :func:`verified_state` that is in force; a fault of it is told elsewhere.

    Raises:
        NotChecked: it cannot be verified.
    """
    try:
        return verified_state(context).state
    except SvcError:
        raise NotChecked("the stored rows cannot be verified; see audit.unsigned_rows") from None
