"""Turns the policy in force into the snapshot that Proxies receive."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen
from twisted.logger import Logger

from svc.authority.policy.snapshot import SnapshotPublisher
from svc.authority.state.cluster import ClusterState
from svc.errors import Denied
from svc.messages.snapshot import MAX_BUNDLE_BYTES, MAX_SENT_BYTES, Revocation
from svc.model.cluster.agent import DISABLED_OWNER, require_agent
from svc.model.cluster.node import NodeState
from svc.model.cluster.person import DISABLED_PERSON, PersonState
from svc.model.principal import NODE_ROLES, Principal, Role
from svc.policy.bundle import PolicyBundle, diff, encode_bundle, encode_delta
from svc.policy.engine import CompiledPolicy
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_authority")


@frozen
class Made:
    """A bundle, its bytes, and the delta from the previous bundle if there is one."""

    bundle: PolicyBundle = field(repr=False)
    data: bytes = field(repr=False)
    delta: bytes = field(repr=False)


@define
class PolicyPublisher:
    """Publishes each new engine, whole or as a change, and each revocation at once.

    Attributes:
        in_thread: Runs what takes long with many entities.
        applied: Told the version of each engine that came into force.
        most: Bytes of a bundle past which changes are refused, and an error is logged.
        most_sent: Bytes past which Proxies stay with the bundle before, which stays fresh.
        size: Revision and bytes of the newest bundle, sent or not; zeros while there is none.
    """

    cluster: str
    publisher: SnapshotPublisher
    in_thread: InThread
    applied: Callable[[int], object]
    most: int = MAX_BUNDLE_BYTES
    most_sent: int = MAX_SENT_BYTES
    size: tuple[int, int] = (0, 0)
    _is_much: bool = False
    _bundle: PolicyBundle | None = None
    _revocations: tuple[Revocation, ...] = ()
    _certificates: tuple[bytes, ...] = ()

    async def policy_changed(self, engine: CompiledPolicy, text: str) -> None:
        """Another engine comes into force: its bundle goes to the Proxies.

        One at a time; called under the lock of ``PolicyInForce``.
        """
        old = self._bundle
        made = await self.in_thread(lambda: _made(engine, text, old))
        self.size = engine.revision, len(made.data)
        if self._is_sent(len(made.data)):
            self._bundle = made.bundle
            self.publisher.publish(
                made.data,
                engine.version,
                engine.revision,
                self._revocations,
                made.delta,
                certificates=self._certificates,
            )
        self.applied(engine.version)

    def _is_sent(self, size: int) -> bool:
        """Whether Proxies can be sent so much; what is more than it may be is logged once."""
        is_much = size > self.most
        if is_much and not self._is_much:
            _log.error(
                "people, groups, resources and policy take more than a Proxy is sent; remove what "
                "is not needed",
                reason="bundle_full",
                bytes=size,
                most=self.most,
                sent=size <= self.most_sent,
            )
        self._is_much = is_much
        return size <= self.most_sent

    def facts_changed(self, facts: ClusterState) -> None:
        """The revocations may have changed; publish them without waiting for a new engine."""
        revocations = revocations_of(facts, self.cluster)
        certificates = tuple(sorted(facts.revoked_certificates))
        if (revocations, certificates) != (self._revocations, self._certificates):
            self._revocations, self._certificates = revocations, certificates
            self.publisher.revoke(revocations, certificates)


def _made(engine: CompiledPolicy, text: str, old: PolicyBundle | None) -> Made:
    bundle = PolicyBundle(
        policy_version=engine.version,
        entity_revision=engine.revision,
        terms=engine.vocabulary.terms,
        policy_text=text,
        entities=engine.entities,
    )
    delta = b""
    if old is not None and old.policy_version == bundle.policy_version:
        delta = encode_delta(
            diff(old.entities, bundle.entities, old.entity_revision, bundle.entity_revision)
        )
    return Made(bundle, encode_bundle(bundle), delta)


def revocations_of(facts: ClusterState, cluster: str) -> tuple[Revocation, ...]:
    """Every person, agent and node that was revoked or is disabled, by SPIFFE URI.

    One that should be there and is not, because its row is not what was signed
    for, counts as revoked until the row is put right (rule R8).
    """
    gone = [
        Principal(cluster, Role.USER, one.id)
        for one in facts.people.values()
        if one.state is PersonState.REVOKED
    ]
    disabled_owners: list[Principal] = []
    disabled = [
        Principal(cluster, Role.USER, one.id)
        for one in facts.people.values()
        if one.state is PersonState.DISABLED
    ]
    for agent in facts.agents.values():
        principal = Principal(cluster, Role.AGENT, agent.id)
        try:
            require_agent(agent, facts.people.get(agent.owner))
        except Denied as refused:
            owners = disabled_owners if refused.reason == DISABLED_OWNER else gone
            owners.append(principal)
    gone += [
        Principal(cluster, Role(one.role), one.id)
        for one in facts.nodes.values()
        if one.state is NodeState.REVOKED
    ]
    for subject in sorted(facts.absent):
        sort, _, id = subject.partition(":")
        if sort == "person":
            gone.append(Principal(cluster, Role.USER, id))
        if sort == "agent":
            gone.append(Principal(cluster, Role.AGENT, id))
        if sort == "node":
            gone += [Principal(cluster, role, id) for role in sorted(NODE_ROLES, key=str)]
    return (
        *(Revocation(one.uri) for one in gone),
        *(Revocation(one.uri, reason=DISABLED_PERSON) for one in disabled),
        *(Revocation(one.uri, reason=DISABLED_OWNER) for one in disabled_owners),
    )
