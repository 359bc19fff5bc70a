"""The Authorities that roots are sealed to: each registers its own receiver credential."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from attrs import define, evolve, field
from cryptography.hazmat.primitives.asymmetric import ed25519
from twisted.logger import Logger

from svc.audit.state.key_tables import ROOT_OWNERS, ROOT_SHARES, ROOTS
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import node
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, LeaseLost, SvcError, Unavailable
from svc.interfaces.store import ITransaction
from svc.messages.forward import ReceiverReport
from svc.model.audit.events import ROOT_OWNER
from svc.model.distribution import (
    MOST_FORMER_NODES,
    OwnerState,
    RootOwner,
    in_force,
    pending,
)
from svc.model.signing import Purpose, sign, verify
from svc.pki.receiver import ReceiverCredential, registration_text

COPIED, REPLACED = "receiver_copied", "receiver_replaced"
_log = Logger(namespace="svc_authority")


@define
class ReceiverRegistry:
    """Takes what Authorities register; used by the one that leads."""

    cluster: str
    writer: StateWriter

    async def take(self, report: ReceiverReport, node_id: str) -> None:
        """Enter a credential, and what keys its Authority has loaded; nothing if both are known.

        Args:
            node_id: Of the Authority, by its certificate.

        Raises:
            BadSignature: whoever registers it does not have the key.
            SvcError: ``receiver_copied``: another owner has it; ``receiver_replaced``: this owner
                has another one, which a root is sealed to, which an operator let back, or which
                another node has.
        """
        text = registration_text(
            self.cluster, report.owner, report.receiver_key, report.sealing_key
        )
        key = ed25519.Ed25519PublicKey.from_public_bytes(report.receiver_key)
        verify(key, Purpose.RECEIVER, text, report.signature)
        if is_registered(self.writer.cache, report, node_id):
            return
        await self.writer.change("register a receiver", lambda tx: self._enter(tx, report, node_id))

    def _enter(self, tx: ITransaction, report: ReceiverReport, node_id: str) -> None:
        owners = self.writer.rows(tx).every(ROOT_OWNERS)
        self._require_free(tx, owners, report, node_id)
        known = owners.get(report.owner)
        if (
            known is not None
            and known.receiver_key == report.receiver_key
            and known.node_id == node_id
        ):
            # What is loaded is not signed: it decides nothing, and changes at each renewal.
            tx.roots.put_owner(evolve(known, key_set=report.key_set))
            return
        entered = RootOwner(
            owner=report.owner,
            node_id=node_id,
            receiver_key=report.receiver_key,
            sealing_key=report.sealing_key,
            state=_state_of_new(owners.values(), node_id) if known is None else known.state,
            since=self.writer.now(),
            key_set=report.key_set,
            is_readmitted=known is not None and known.is_readmitted,
            former_nodes=() if known is None else _former_nodes(known, node_id),
        )
        changed = [entered, *self._renamed(owners.values(), entered)]
        for one in changed:
            tx.roots.put_owner(one)
        self.writer.append(
            tx,
            ROOT_OWNER,
            node(node_id),
            node_id=node_id,
            details={
                "owners": [one.owner for one in changed],
                "key_digest": entered.key_digest,
            },
            state=[ROOT_OWNERS.now(tx, one.owner) for one in changed],
        )

    def _require_free(
        self,
        tx: ITransaction,
        owners: Mapping[str, RootOwner],
        report: ReceiverReport,
        node_id: str,
    ) -> None:
        """Refuse a credential that is another owner's, or that would replace one that counts."""
        for other in owners.values():
            if other.receiver_key == report.receiver_key and other.owner != report.owner:
                raise _copied(report.owner, other.owner)
        known = owners.get(report.owner)
        if known is None:
            return
        is_same_node = known.node_id == node_id
        is_certified_anew = not is_same_node and known.receiver_key == report.receiver_key
        if is_certified_anew and node_id in known.former_nodes:
            raise _former_node(known, node_id)
        if is_certified_anew and len(known.former_nodes) >= MOST_FORMER_NODES:
            raise _too_often(known)
        if known.state is OwnerState.WITHDRAWN:
            if not is_same_node:
                raise _name_of_withdrawn(known)
        elif known.receiver_key != report.receiver_key and (
            not is_same_node or known.is_readmitted or self._has_share(tx, known)
        ):
            raise _replaced(report.owner)

    def _has_share(self, tx: ITransaction, owner: RootOwner) -> bool:
        """Whether a root that is prepared or in force is sealed to the credential it has."""
        rows = self.writer.rows(tx)
        roots = rows.every(ROOTS).values()
        epochs = {one.epoch for one in (pending(roots), in_force(roots)) if one is not None}
        shares = rows.every(ROOT_SHARES).values()
        return any(one.owner == owner.owner and one.epoch in epochs for one in shares)

    def _renamed(self, owners: Iterable[RootOwner], entered: RootOwner) -> list[RootOwner]:
        """What the same Authority registered under the name that it had before."""
        return [
            evolve(one, state=OwnerState.WITHDRAWN, since=entered.since, is_readmitted=False)
            for one in owners
            if one.node_id == entered.node_id
            and one.owner != entered.owner
            and one.state is OwnerState.RETAINED
        ]


@define
class ReceiverReporting:
    """Registers this Authority's credential, until the cluster's state has it.

    Attributes:
        loaded: Digest of the keys that this process has loaded.
        deliver: Brings a report to the leader, which may be this Authority; raises SvcError.
        stopped_by: Told that the credential is another owner's: the process ends.
    """

    cluster: str
    credential: ReceiverCredential
    node_id: str
    state_cache: ClusterStateCache
    loaded: Callable[[], bytes]
    deliver: Callable[[ReceiverReport], Awaitable[object]]
    stopped_by: Callable[[SvcError], object]
    _own: ReceiverReport = field(init=False)
    _refused: str = field(default="", init=False)

    @_own.default
    def _signed_once(self) -> ReceiverReport:
        own = self.credential
        receiver_key, sealing_key = own.receiver_key, own.sealing_key
        text = registration_text(self.cluster, own.owner, receiver_key, sealing_key)
        return ReceiverReport(
            owner=own.owner,
            receiver_key=receiver_key,
            sealing_key=sealing_key,
            signature=sign(own.key, Purpose.RECEIVER, text),
            key_set=b"",
        )

    async def look(self) -> None:
        """One pass; what keeps it from its end is logged once, and the next one tries again."""
        report = self._report()
        if is_registered(self.state_cache, report, self.node_id):
            return
        try:
            await self.deliver(report)
        except (LeaseLost, Unavailable):
            return  # nobody leads just now, or it is not reached: that is said elsewhere
        except SvcError as refused:
            self._say(refused)
            if refused.reason == COPIED:
                self.stopped_by(refused)
        else:
            self._refused = ""

    async def enter(self, registry: ReceiverRegistry) -> None:
        """Enter our own, as whoever begins to lead: before anybody is served.

        Raises:
            SvcError: ``receiver_copied``.
            StoreUnavailable: the store does not take it.
        """
        try:
            await registry.take(self._report(), self.node_id)
        except (LeaseLost, Unavailable):
            raise
        except SvcError as refused:
            self._say(refused)
            if refused.reason == COPIED:
                raise

    def _report(self) -> ReceiverReport:
        return evolve(self._own, key_set=self.loaded())

    def _say(self, refused: SvcError) -> None:
        if refused.text != self._refused:
            _log.error(
                "the receiver credential was not registered",
                reason=refused.reason,
                text=refused.text,
            )
        self._refused = refused.text


def is_registered(cache: ClusterStateCache, report: ReceiverReport, node_id: str) -> bool:
    """Whether the cluster's state has what an Authority reports."""
    known = cache.state.root_owners.get(report.owner)
    return known is not None and (
        known.receiver_key,
        known.sealing_key,
        known.node_id,
        known.key_set,
    ) == (report.receiver_key, report.sealing_key, node_id, report.key_set)


def _state_of_new(owners: Iterable[RootOwner], node_id: str) -> OwnerState:
    """The state in which a node's new name is entered.

    Who was withdrawn comes back by an operator's word: neither by another credential, nor by
    another name.  What was let back so was one credential under one name.  Whoever was certified
    anew is known by the new certificate: a former one does not bring in a second owner.
    """
    own = [one for one in owners if node_id in (one.node_id, *one.former_nodes)]
    kept = [
        one
        for one in own
        if one.state is OwnerState.RETAINED and one.node_id == node_id and not one.is_readmitted
    ]
    return OwnerState.RETAINED if kept or not own else OwnerState.WITHDRAWN


def _former_nodes(known: RootOwner, node_id: str) -> tuple[str, ...]:
    """The nodes that an owner was before, once it is this one."""
    if known.node_id in (node_id, ""):
        return known.former_nodes
    return (*known.former_nodes, known.node_id)


def _refused(reason: str, text: str) -> SvcError:
    return SvcError(text, reason=reason, fault=Fault.PRECONDITION)


def _copied(owner: str, other: str) -> SvcError:
    return _refused(
        COPIED,
        f"receiver.key: the credential of {owner} is registered as that of {other}: it was copied; "
        f"move it away at {owner}, which then makes its own at its next start",
    )


def _name_of_withdrawn(known: RootOwner) -> SvcError:
    return _refused(
        REPLACED,
        f"{known.owner} is withdrawn and is the name of the node {known.node_id}: no other node "
        "registers a receiver credential under it; give this Authority another authority.name",
    )


def _former_node(known: RootOwner, node_id: str) -> SvcError:
    return _refused(
        REPLACED,
        f"node {node_id} is a former identity of {known.owner}, which has since been certified "
        f"anew as node {known.node_id}; put the identity of node {known.node_id} back, or move "
        "receiver.key away, give this Authority another authority.name, and readmit that name: "
        "svc authority keys sync root readmit NAME --key DIGEST",
    )


def _too_often(known: RootOwner) -> SvcError:
    return _refused(
        REPLACED,
        f"{known.owner} was certified anew {MOST_FORMER_NODES} times under one receiver "
        "credential; move receiver.key away, and give this Authority another authority.name",
    )


def _replaced(owner: str) -> SvcError:
    return _refused(
        REPLACED,
        f"another receiver credential of {owner} is registered; put the former receiver.key back, "
        "or, if it is lost, withdraw this owner first: svc authority keys sync root withdraw "
        f"{owner}; and let it back once it is registered: svc authority keys sync root readmit "
        f"{owner}; where fewer than two owners would remain, start a further Authority first, or "
        "give this one another authority.name",
    )
