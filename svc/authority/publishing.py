"""From the policy in force to the snapshot that Proxies follow."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.authority.facts import ClusterFacts
from svc.authority.snapshots import SnapshotPublisher
from svc.messages.snapshot import Revocation
from svc.model.node import NodeState
from svc.model.person import PersonState
from svc.model.principal import Principal, Role
from svc.policy.bundle import PolicyBundle, diff, encode_bundle, encode_delta
from svc.policy.engine import CompiledPolicy


@define
class Publishing:
    """Publishes each new engine, whole or as a change, and each revocation at once.

    Attributes:
        applied: Told the version of each engine that came into force.
    """

    cluster: str
    publisher: SnapshotPublisher
    applied: Callable[[int], object]
    _bundle: PolicyBundle | None = None
    _revocations: tuple[Revocation, ...] = ()

    def policy_changed(self, engine: CompiledPolicy, text: str) -> None:
        """Another engine is in force: its bundle goes to the Proxies."""
        bundle = PolicyBundle(
            engine.version, engine.revision, engine.vocabulary.terms, text, engine.entities
        )
        delta = b""
        old = self._bundle
        if old is not None and old.policy_version == bundle.policy_version:
            change = diff(
                old.entities, bundle.entities, old.entity_revision, bundle.entity_revision
            )
            delta = encode_delta(change)
        self._bundle = bundle
        self.publisher.publish(
            encode_bundle(bundle), engine.version, engine.revision, self._revocations, delta
        )
        self.applied(engine.version)

    def facts_changed(self, facts: ClusterFacts) -> None:
        """Who is revoked may have changed; that does not wait for another engine."""
        revocations = revocations_of(facts, self.cluster)
        if revocations != self._revocations:
            self._revocations = revocations
            self.publisher.revoke(revocations)


def revocations_of(facts: ClusterFacts, cluster: str) -> tuple[Revocation, ...]:
    """Every revoked person and node, by SPIFFE URI."""
    gone = [
        Principal(cluster, Role.USER, one.id)
        for one in facts.people.values()
        if one.state is PersonState.REVOKED
    ]
    gone += [
        Principal(cluster, Role(one.role), one.id)
        for one in facts.nodes.values()
        if one.state is NodeState.REVOKED
    ]
    return tuple(Revocation(one.uri) for one in gone)
