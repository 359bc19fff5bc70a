"""Lets operators set and read policy texts."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from attrs import define

from svc.authority.policy.active import PolicyInForce
from svc.authority.policy.binding import ReplayBinding, check_binding, read_binding
from svc.authority.registry.operators import EDIT_POLICY, Operators
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder
from svc.authority.state.tables import POLICIES
from svc.errors import Denied, Fault, SvcError, Unavailable
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import POLICY_ACTIVATE, POLICY_REFUSED
from svc.model.audit.record import Actor
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
    in_force: PolicyInForce
    operators: Operators
    store: IStore
    recorder: Recorder
    now: Callable[[], float]

    async def set(self, request: pb.SetPolicyRequest, actor: Actor) -> pb.SetPolicyResponse:
        """Check a text as a whole, keep it as the next version and put it in force.

        The text that is in force already makes no new version.

        Raises:
            SvcError: the text is refused (recorded), and nothing changed.
        """
        facts = await self.state_cache.refresh()
        bound = read_binding(request.replay) if request.replay else None
        base = 0 if facts.policy is None else facts.policy.version
        applied = self.in_force.engine
        is_applied = applied is not None and applied.version == base
        if is_applied and facts.policy is not None and facts.policy.text == request.text:
            digest = facts.policy.sha256.hex()
            return pb.SetPolicyResponse(version=base, sha256=digest, unchanged=True)
        try:
            engine = await self.in_force.trial(request.text, facts, base + 1)
            decision = self.operators.decide(engine, self.operators.own_uid, EDIT_POLICY)
            keep_operators(decision is not None and decision.allowed, self.operators.own_uid)
        except SvcError as refusal:
            await self._record_refusal(request.text, actor, refusal)
            raise
        stored = await self._activate(request.text, actor, base, bound)
        await self.in_force.follow(await self.state_cache.refresh())
        applied = self.in_force.engine
        if applied is None or applied.version < stored.version:
            raise Unavailable(
                f"version {stored.version} is stored but not active yet; the next reload pass "
                "will try again",
                reason="policy_not_applied",
            )
        return pb.SetPolicyResponse(version=stored.version, sha256=stored.sha256.hex())

    async def ensure_first(self, actor: Actor) -> None:
        """Give a new cluster its first policy; called once at start.

        One whose policy is not what was signed for has nothing in force instead.
        """
        if (await self.state_cache.refresh()).policy is None and await self._has_none():
            await self._activate(FIRST_POLICY, actor, 0)
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
                f"policy version {wanted}: does not exist",
                reason="unknown_version",
                fault=Fault.NOT_FOUND,
            )
        return shown(stored, stored.text)

    async def history(
        self, request: pb.PolicyHistoryRequest, actor: Actor
    ) -> pb.PolicyHistoryResponse:
        """The versions, newest first, without their texts."""
        stored = await self.store.read(
            "policy history", lambda tx: tx.policies.history(HISTORY_LIMIT)
        )
        return pb.PolicyHistoryResponse(versions=[shown(one, "") for one in stored])

    async def _activate(
        self, text: str, actor: Actor, base: int, bound: ReplayBinding | None = None
    ) -> PolicyVersion:
        digest = self.in_force.vocabulary.digest

        def activate(tx: ITransaction) -> PolicyVersion:
            active = self.recorder.rows(tx).policy_in_force()
            if (0 if active is None else active.version) != base:
                raise SvcError(
                    "another policy was activated in the meantime; review it and try again",
                    reason="policy_changed",
                    fault=Fault.ABORTED,
                )
            if bound is not None:
                check_binding(bound, tx.audit, text, "" if active is None else active.text, digest)
            added = tx.policies.add(text, actor.id, self.now())
            stored = tx.policies.activate(added.version, self.now())
            self.recorder.append(
                tx,
                POLICY_ACTIVATE,
                actor,
                policy_version=stored.version,
                details={
                    "policy_digest": stored.sha256.hex(),
                    "previous_digest": None if active is None else active.sha256.hex(),
                    "validated": True,
                    "replay_digest": None if bound is None else bound.digest,
                    "replay_first": None if bound is None else bound.first,
                    "replay_last": None if bound is None else bound.last,
                },
                state=[POLICIES.now(tx, stored.version)],
            )
            return stored

        return await self.store.run("activate a policy", activate)

    async def _record_refusal(self, text: str, actor: Actor, refusal: SvcError) -> None:
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        await self.store.run(
            "refuse a policy",
            lambda tx: self.recorder.append(
                tx,
                POLICY_REFUSED,
                actor,
                reason=refusal.reason,
                details={"policy_digest": digest},
            ),
        )


def keep_operators(may_edit: bool, own_uid: int) -> None:
    """Nobody may lock the cluster's own operators out (G-OPEN-57).

    Args:
        may_edit: Whether the proposed text lets the Authority's own user change the policy.

    Raises:
        Denied: it does not.
    """
    if not may_edit:
        raise Denied(
            f'the policy would lock out Operator::"local:{own_uid}"; add: '
            '@id("operators-administer") permit (principal is Operator, '
            'action in Action::"administer", resource is Cluster);',
            reason="policy_locks_out",
            fault=Fault.PRECONDITION,
        )


def shown(stored: PolicyVersion, text: str) -> pb.ShowPolicyResponse:
    """A version as it is told, with this text."""
    return pb.ShowPolicyResponse(
        version=stored.version,
        text=text,
        sha256=stored.sha256.hex(),
        author=stored.author,
        created_at=int(stored.created_at),
    )
