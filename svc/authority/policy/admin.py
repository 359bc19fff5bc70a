"""Lets operators set and read policy texts."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define

from svc.authority.policy.activate import NewPolicy, PolicyActivation
from svc.authority.policy.binding import read_binding
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.cluster import ClusterState
from svc.authority.state.recorder import Recorder
from svc.errors import Denied, Fault, SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import OPERATOR_BREAK_GLASS
from svc.model.audit.record import Actor
from svc.model.cluster.person import Person
from svc.model.policy.rules import PolicyRules
from svc.model.policy.version import PolicyVersion
from svc.policy.words import OPERATORS_POLICY
from svc.proto.gate.v1 import admin_pb2 as pb

HISTORY_LIMIT = 1000

FIRST_POLICY = f"""\
// Written when the cluster was created: nobody may reach anything yet.
{OPERATORS_POLICY}"""
"""The operators of the control socket may administer; everything else waits for a policy."""


@define
class PolicyAdmin:
    """Sets and shows policies."""

    state_cache: ClusterStateCache
    activation: PolicyActivation
    rules: PolicyRules
    store: IStore
    recorder: Recorder

    async def set(self, request: pb.SetPolicyRequest, actor: Actor) -> pb.SetPolicyResponse:
        """Check a text as a whole, keep it as the next version and put it in force.

        The text that is in force already makes no new version.

        Raises:
            SvcError: policies need approvals here, or the text is refused (recorded), and nothing
                changed.
        """
        facts = await self.state_cache.refresh()
        self._require_alone(request, actor, facts)
        bound = read_binding(request.replay) if request.replay else None
        base = 0 if facts.policy is None else facts.policy.version
        applied = self.activation.in_force.engine
        is_applied = applied is not None and applied.version == base
        if is_applied and facts.policy is not None and facts.policy.text == request.text:
            digest = facts.policy.sha256.hex()
            return pb.SetPolicyResponse(version=base, sha256=digest, unchanged=True)
        engine = await self.activation.tried(request.text, facts, base + 1, actor)
        new = NewPolicy(text=request.text, base=base, author=actor.id, engine=engine, bound=bound)

        def activate(tx: ITransaction) -> PolicyVersion:
            if request.break_glass:
                details = {"policy_digest": new.digest}
                self.recorder.append(
                    tx, OPERATOR_BREAK_GLASS, actor, reason="no_approvals", details=details
                )
            return self.activation.write(tx, new, actor)

        stored = await self.store.run("activate a policy", activate)
        await self.activation.applied(stored)
        return pb.SetPolicyResponse(version=stored.version, sha256=stored.sha256.hex())

    def _require_alone(
        self, request: pb.SetPolicyRequest, actor: Actor, facts: ClusterState
    ) -> None:
        """Refuse a policy that one alone may not set.

        While no policy is in force nobody could approve one: it is set alone (see ``Operators``).
        """
        if request.break_glass:
            if not self.rules.may_break_glass(actor.kind, actor.id):
                raise Denied(
                    f"{actor.id}: is not named in policy.break_glass of the Authority's "
                    "configuration",
                    reason="not_break_glass",
                )
        elif self.rules.approvals and facts.policy is not None:
            raise SvcError(
                "a policy needs the approval of others here; propose it: svc authority policy "
                "propose FILE",
                reason="policy_needs_approval",
                fault=Fault.PRECONDITION,
            )

    async def ensure_first(self, actor: Actor) -> None:
        """Give a new cluster its first policy; called once at start.

        One whose policy is not what was signed for has nothing in force instead.
        """
        if (await self.state_cache.refresh()).policy is None and await self._has_none():
            first = NewPolicy(text=FIRST_POLICY, base=0, author=actor.id)
            await self.store.run(
                "activate the first policy", lambda tx: self.activation.write(tx, first, actor)
            )
            await self.state_cache.refresh()

    async def _has_none(self) -> bool:
        if self.state_cache.ledger.view.policy:
            return False
        return not await self.store.read("policies", lambda tx: tx.policies.history(1))

    async def show(self, request: pb.ShowPolicyRequest, actor: Actor) -> pb.ShowPolicyResponse:
        """One version; the active one where none is named."""
        wanted = request.version

        def look(tx: ITransaction) -> PolicyVersion | None:
            rows = self.state_cache.rows(tx)
            return rows.policy(wanted) if wanted else rows.policy_in_force()

        stored = await self.store.read("show a policy", look)
        if stored is None:
            raise SvcError(
                f"policy version {wanted}: does not exist; list them: svc authority policy history",
                reason="unknown_version",
                fault=Fault.NOT_FOUND,
            )
        return shown(stored, stored.text, self.state_cache.state.people)

    async def history(
        self, request: pb.PolicyHistoryRequest, actor: Actor
    ) -> pb.PolicyHistoryResponse:
        """The versions, newest first, without their texts."""
        stored = await self.store.read(
            "policy history", lambda tx: tx.policies.history(HISTORY_LIMIT)
        )
        people = self.state_cache.state.people
        return pb.PolicyHistoryResponse(versions=[shown(one, "", people) for one in stored])


def shown(stored: PolicyVersion, text: str, people: Mapping[str, Person]) -> pb.ShowPolicyResponse:
    """A version as it is told, with this text."""
    known = people.get(stored.author)
    return pb.ShowPolicyResponse(
        version=stored.version,
        text=text,
        sha256=stored.sha256.hex(),
        author=stored.author,
        created_at=int(stored.created_at),
        author_name="" if known is None else known.known_name,
    )
