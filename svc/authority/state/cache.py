"""The cluster's state as this Authority knows it, read whole from the store.

It is a frozen value, replaced at each change; deciding never reads the store.  Only
what a signed record stands behind enters it (rule R8).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from attrs import define, evolve, field, frozen
from twisted.internet.defer import DeferredLock

from svc.audit.state.in_force import StateBroken, StateLedger, VerifiedRecord
from svc.authority.state.cluster import ClusterState
from svc.authority.state.tables import SignedRows, StateUnsigned
from svc.authority.state.verify import Digests, StateVerifier, Unsigned
from svc.errors import Denied
from svc.interfaces.store import IReadOnlyStore, ITransaction
from svc.model.cluster.agent import Agent, require_agent
from svc.model.cluster.node import Node, NodeState
from svc.model.cluster.person import Person, require_active
from svc.model.principal import Principal, Role

_L = TypeVar("_L")
_T = TypeVar("_T")


@frozen
class StoreReading:
    """The result of one read of the store."""

    state: ClusterState
    links: list[VerifiedRecord]
    unsigned: tuple[Unsigned, ...]
    stored_policy: int
    """The version the store says is in force; 0 where it names none."""


@define
class ClusterStateCache:
    """Holds the current state of the cluster, and notifies listeners of each change.

    Attributes:
        ledger: What is in force by the signed records; brought forward at each look.
        advanced: Told when it went on.
        proxies: Those whose calls are served, by id; made anew as the registry changes.
    """

    store: IReadOnlyStore
    ledger: StateLedger
    now: Callable[[], float]
    advanced: Callable[[], object]
    state: ClusterState = field(factory=ClusterState)
    proxies: Mapping[str, Node] = field(factory=dict, init=False)
    _on_change: list[Callable[[ClusterState], object]] = field(factory=list)
    _digests: Digests = field(factory=Digests)
    _reading: DeferredLock = field(factory=DeferredLock)

    def on_change(self, changed: Callable[[ClusterState], object]) -> None:
        """Call *changed* with the new state after every refresh that changed something."""
        self._on_change.append(changed)

    def rows(self, tx: ITransaction) -> SignedRows:
        """The protected rows of *tx* as they are now.  Raises StateUnsigned."""
        return SignedRows.of(self.ledger, tx)

    def rows_or_known(self, tx: ITransaction) -> SignedRows:
        """As :meth:`rows`; by what is known here where newer records of state do not verify."""
        try:
            return self.rows(tx)
        except StateUnsigned:
            return SignedRows(tx, self.ledger.known(), self.ledger)

    async def refresh(self) -> ClusterState:
        """Read the store again; called after each change of ours."""
        return await self._read("read the cluster's state", self._look, self._take)

    async def reload(self) -> StoreReading:
        """Read every protected row again, and drop what has expired; called at the reload pass."""
        at = self.now()

        def take(read: StoreReading) -> StoreReading:
            self._take(read)
            self.ledger.forget_past(at)
            return read

        return await self._read("read the protected rows", lambda tx: self._look(tx, at), take)

    async def _read(
        self, desc: str, look: Callable[[ITransaction], _L], take: Callable[[_L], _T]
    ) -> _T:
        """Read and take, one look after the other.

        A store may answer two readers in any order, and an older look must not replace a newer.
        """
        await self._reading.acquire()
        try:
            return take(await self.store.read(desc, look))
        finally:
            self._reading.release()

    async def catch_up(self) -> None:
        """Read only the records of state, after a change that affects no other facts."""

        def look(tx: ITransaction) -> list[VerifiedRecord]:
            return self.ledger.ahead(tx.state, self.ledger.view)

        try:
            await self._read("read the records of state", look, self._install)
        except StateBroken:
            pass  # the change is made all the same; the next pass names what is wrong

    def _look(self, tx: ITransaction, sweep_at: float | None = None) -> StoreReading:
        """Runs in the store's thread."""
        view, broken = self.ledger.view, list[Unsigned]()
        try:
            links = self.ledger.ahead(tx.state, view)
            seen = self.ledger.within(tx.state)
            self.ledger.check_end(tx.state, seen)
        except StateBroken as failed:
            # What this process knows stays in force; what came after it is not known.
            links, seen = [], self.ledger.known()
            end = tx.state.head()
            broken = [
                Unsigned(
                    subject=f"log:{end.n}",
                    stored=end.hash.hex(),
                    signed=view.hash.hex(),
                    why=failed.text,
                )
            ]
        verifier = StateVerifier(seen, self.state, self._digests)
        at = self.now()
        state = evolve(
            verifier.state(tx),
            revoked_certificates=verifier.revoked(tx, at),
            delegations=verifier.delegations(tx, at),
        )
        if sweep_at is not None:
            verifier.sweep(tx, sweep_at)
        unsigned = (*broken, *verifier.unsigned.values())
        return StoreReading(
            state=state, links=links, unsigned=unsigned, stored_policy=verifier.stored_policy
        )

    def _take(self, read: StoreReading) -> ClusterState:
        self._install(read.links)
        if read.state != self.state:
            self.state = read.state
            self.proxies = {
                id: one
                for id, one in read.state.nodes.items()
                if one.role == Role.PROXY.value and one.state is NodeState.ACTIVE
            }
            for changed in self._on_change:
                changed(self.state)
        return self.state

    def _install(self, links: list[VerifiedRecord]) -> None:
        if self.ledger.install(links):
            self.advanced()

    def served(self, node_id: str, resources: Collection[str], at: float) -> None:
        """Remember which resources a registered Connector serves, as written to the store.

        Nothing the policy looks at changes, so nobody is told; reading everything
        again for each of many Connectors would cost far more.
        """
        catalog = dict(self.state.catalog)
        for one in resources:
            if one in catalog:
                catalog[one] = evolve(catalog[one], last_served_at=at, last_served_by=node_id)
        self.state = evolve(self.state, catalog=catalog)

    def node(self, principal: Principal) -> Node:
        """The active node a certificate speaks for.

        Raises:
            Denied: ``unknown_node`` or ``revoked_node``.
        """
        node = self.state.nodes.get(principal.id)
        if node is None or node.role != principal.role.value:
            raise Denied("the node is not in the registry", reason="unknown_node")
        if node.state is NodeState.REVOKED:
            raise Denied("the node was revoked", reason="revoked_node")
        return node

    def caller(self, principal: Principal) -> Person | Agent:
        """The person or agent a certificate speaks for, if the cluster accepts it.

        Raises:
            Denied: as :meth:`person`, or as require_agent.
        """
        if principal.role is not Role.AGENT:
            return self.person(principal)
        agent = self.state.agents.get(principal.id)
        return require_agent(agent, None if agent is None else self.state.people.get(agent.owner))

    def person(self, principal: Principal) -> Person:
        """The active person a certificate speaks for.

        Raises:
            Denied: ``unknown_person``, ``revoked_person`` or ``disabled_person``.
        """
        is_user = principal.role is Role.USER
        return require_active(self.state.people.get(principal.id) if is_user else None)
