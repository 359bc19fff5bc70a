"""Puts a policy text in force: tried beforehand, and checked again in the transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from attrs import define, frozen

from svc.authority.policy.active import PolicyInForce
from svc.authority.policy.binding import ReplayBinding, check_binding
from svc.authority.policy.lock_out import LockOutCheck
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.cluster import ClusterState
from svc.authority.state.recorder import Recorder
from svc.authority.state.tables import POLICIES
from svc.errors import Fault, SvcError, Unavailable
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import POLICY_ACTIVATE, POLICY_REFUSED
from svc.model.audit.record import NOTHING, Actor
from svc.model.audit.state import StateEntry
from svc.model.canonical import Json
from svc.model.policy.version import PolicyVersion
from svc.policy.engine import CompiledPolicy


@frozen(kw_only=True)
class NewPolicy:
    """A text that is to be in force.

    Attributes:
        base: The version that it replaces; 0 where there is none.
        engine: Of the text, as it was tried; None for the first text of a cluster.
        author: Whose name the version has.
        bound: The replay that it is bound to.
    """

    text: str
    base: int
    author: str
    engine: CompiledPolicy | None = None
    bound: ReplayBinding | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hex."""
        return text_digest(self.text)


@define
class PolicyActivation:
    """What setting a policy and activating a proposed one have in common."""

    state_cache: ClusterStateCache
    in_force: PolicyInForce
    lock_out: LockOutCheck
    store: IStore
    recorder: Recorder
    now: Callable[[], float]

    async def tried(
        self, text: str, facts: ClusterState, version: int, actor: Actor
    ) -> CompiledPolicy:
        """The engine of a text that may be activated.

        Raises:
            SvcError: the text is refused; that is on record by then.
        """
        try:
            engine = await self.in_force.trial(text, facts, version)
            self.lock_out.require(engine)
        except SvcError as refusal:
            await self.record_refusal(text, actor, refusal)
            raise
        return engine

    def base(self, tx: ITransaction, base: int) -> PolicyVersion | None:
        """The policy in force in *tx*, which must be that of version *base*.

        Raises:
            SvcError: ``policy_changed``.
        """
        active = self.recorder.rows(tx).policy_in_force()
        if (0 if active is None else active.version) != base:
            raise policy_changed()
        return active

    def write(
        self,
        tx: ITransaction,
        new: NewPolicy,
        actor: Actor,
        *,
        details: Mapping[str, Json] = NOTHING,
        state: Callable[[int], Sequence[StateEntry]] = lambda version: (),
    ) -> PolicyVersion:
        """Activate the text with its record.

        Args:
            state: Given the version, changes other rows and names them.

        Raises:
            SvcError: it replaces another policy by now, its replay is not of this log, or it
                would lock out everybody who administers.
        """
        active = self.base(tx, new.base)
        self.check_replay(tx, new, active)
        if new.engine is not None:
            self.lock_out.require_after(tx, new.engine)
        added = tx.policies.add(new.text, new.author, self.now())
        stored = tx.policies.activate(added.version, self.now())
        more = state(stored.version)
        bound = new.bound
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
                **details,
            },
            state=[POLICIES.now(tx, stored.version), *more],
        )
        return stored

    def check_replay(self, tx: ITransaction, new: NewPolicy, active: PolicyVersion | None) -> None:
        """Return if the replay that the text is bound to is of this policy and this log."""
        if new.bound is not None:
            text = "" if active is None else active.text
            check_binding(new.bound, tx.audit, new.text, text, self.in_force.vocabulary.digest)

    async def applied(self, stored: PolicyVersion) -> None:
        """Decide by the version from now on.

        Raises:
            Unavailable: ``policy_not_applied``: it is stored, and is tried again later.
        """
        await self.in_force.follow(await self.state_cache.refresh())
        applied = self.in_force.engine
        if applied is None or applied.version < stored.version:
            raise Unavailable(
                f"version {stored.version} is stored but not active yet; the next reload pass "
                "will try again",
                reason="policy_not_applied",
            )

    async def record_refusal(self, text: str, actor: Actor, refusal: SvcError) -> None:
        """A text that was refused."""
        await self.store.run(
            "refuse a policy",
            lambda tx: self.recorder.append(
                tx,
                POLICY_REFUSED,
                actor,
                reason=refusal.reason,
                details={"policy_digest": text_digest(text)},
            ),
        )


def text_digest(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def policy_changed() -> SvcError:
    """The refusal of what was made for another policy than the one in force."""
    return SvcError(
        "another policy was activated in the meantime; review it and try again",
        reason="policy_changed",
        fault=Fault.ABORTED,
    )
