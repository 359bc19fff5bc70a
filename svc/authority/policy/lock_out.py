"""Refuses what would leave nobody who can change the policy (G-OPEN-57, rule R17).

Those who must keep that right are few and named beforehand: the user that the Authority runs as,
and the break-glass principals of its configuration.  One of them is enough.  They are asked about
with the least that a request can carry, the time, so that a policy which wants more of everybody
(a second factor, an address) is refused as well.

The check belongs in the transaction of the change.  Where its engine was made over the very
entities that the transaction sees, that engine is asked; else one over the entities there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define

from svc.authority.policy.entity_rows import entities_from
from svc.authority.state.cluster import ClusterState
from svc.authority.state.tables import PERSONS, SignedRows
from svc.errors import Denied, Fault
from svc.interfaces.kinds import ServedKind
from svc.interfaces.store import ITransaction
from svc.model.cluster.person import Person
from svc.model.policy.access import AccessRequest, Decision, EntityUid
from svc.model.policy.requests import context_at
from svc.model.policy.rules import PolicyRules
from svc.policy.engine import CompiledPolicy
from svc.policy.entities import cluster_uid
from svc.policy.trial import TrialAnswer

EDIT_POLICY = "editPolicy"
_MOST_NAMED = 5
_APART = frozenset({"Operator", "Cluster"})
"""Entities that no change of people, groups or resources makes others."""


@define
class LockOutCheck:
    """Says whether somebody keeps the right to change the policy.

    Attributes:
        own_uid: The user that this Authority runs as.
        rows: The protected rows of a transaction.
        engine: The policy in force; None while there is none.
    """

    cluster: str
    kinds: Mapping[str, ServedKind]
    own_uid: int
    rules: PolicyRules
    rows: Callable[[ITransaction], SignedRows]
    engine: Callable[[], CompiledPolicy | None]
    now: Callable[[], float]

    def requests(self) -> tuple[AccessRequest, ...]:
        """What the policy is asked, for each of those who must keep the right."""
        own = EntityUid("Operator", f"local:{self.own_uid}")
        context = context_at(self.now())
        return tuple(
            AccessRequest(
                request_kind="admin",
                principal=one,
                action=EDIT_POLICY,
                resource=cluster_uid(self.cluster),
                context=context,
            )
            for one in dict.fromkeys((own, *self.rules.principals))
        )

    def require(self, engine: CompiledPolicy) -> None:
        """Refuse a policy under which none of them keeps it, over the entities it has.

        Raises:
            Denied: ``policy_locks_out``.
        """
        self.require_any([engine.decide(one) for one in self._present(engine)])

    def require_any(self, answers: Sequence[Decision | TrialAnswer]) -> None:
        """Refuse where none of these answers is yes; raises as :meth:`require`.

        The first is that to the user that this Authority runs as.
        """
        if not any(one.decision == "allow" for one in answers):
            own = f"local:{self.own_uid}"
            raise Denied(
                f'the change would lock out Operator::"{own}"'
                + (" and every break-glass principal" if self.rules.break_glass else "")
                + f"; {_mending(answers[0])}",
                reason="policy_locks_out",
                fault=Fault.PRECONDITION,
            )

    def require_after(self, tx: ITransaction, engine: CompiledPolicy | None = None) -> None:
        """The same for what *tx* holds now, after its changes; *engine*: a policy to be activated.

        Raises:
            Denied: ``policy_locks_out``; the transaction is undone.
        """
        asked = engine or self.engine()
        if asked is None or any(self._is_apart(asked, one) for one in self.requests()):
            return
        self.require(self._over(tx, asked))

    def engine_over(self, tx: ITransaction, people: Sequence[Person]) -> CompiledPolicy | None:
        """The policy in force over what *tx* holds, with these people as they are given."""
        engine = self.engine()
        return None if engine is None else self._over(tx, engine, people)

    def _over(
        self, tx: ITransaction, engine: CompiledPolicy, people: Sequence[Person] = ()
    ) -> CompiledPolicy:
        is_same = engine.revision == tx.catalog.revision()
        if is_same and all(tx.people.get(one.id) == one for one in people):
            return engine
        entities = entities_from(self._state(tx, people), self.kinds, self.cluster)
        return engine.with_entities(entities, tx.catalog.revision())

    def _present(self, engine: CompiledPolicy) -> list[AccessRequest]:
        """Without people who are not there, or not active: nothing is granted to them."""
        there = {one.uid for one in engine.entities}
        return [
            one
            for one in self.requests()
            if one.principal.type == "Operator" or one.principal in there
        ]

    @staticmethod
    def _is_apart(engine: CompiledPolicy, request: AccessRequest) -> bool:
        """Whether it is allowed, and looks at nothing that a change of the cluster touches."""
        looked_at = {one.uid.type for one in engine.entity_slice(request)}
        return (
            request.principal.type == "Operator"
            and looked_at <= _APART
            and engine.decide(request).allowed
        )

    def _state(self, tx: ITransaction, changed: Sequence[Person]) -> ClusterState:
        """People, groups and resources as *tx* has them; people only as they were signed for."""
        rows = self.rows(tx)
        people = [one for one in PERSONS.all(tx, 0.0) if rows.is_signed(PERSONS.entry_of(one))]
        groups = dict.fromkeys(tx.people.groups())
        for one in changed:
            groups.update(dict.fromkeys(one.groups))
        return ClusterState(
            people={one.id: one for one in (*people, *changed)},
            groups=tuple(groups),
            nodes={one.id: one for one in tx.nodes.all()},
            catalog={one.id: one for one in tx.catalog.all()},
        )


def _mending(answer: Decision | TrialAnswer) -> str:
    """What to change for the right that was not given."""
    if answer.decision == "deny" and answer.policies:
        # Only what forbids denies by name, and no permit prevails over it.
        names = ", ".join(answer.policies[:_MOST_NAMED])
        more = len(answer.policies) - _MOST_NAMED
        return f"forbidden by: {names}" + (f" and {more} more" if more > 0 else "")
    return (
        'add: @id("operators-administer") permit (principal is Operator, '
        'action in Action::"administer", resource is Cluster);'
    )
