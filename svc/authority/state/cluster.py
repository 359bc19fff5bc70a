"""The cluster state at one moment, as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from svc.model.cluster.agent import Agent, Delegation
from svc.model.cluster.key_revision import KeyRevision
from svc.model.cluster.node import Node
from svc.model.cluster.person import Person
from svc.model.cluster.registration import SSH_GATE, Epoch
from svc.model.cluster.resource import Resource
from svc.model.distribution import (
    DistributionRoot,
    KeySet,
    RootOwner,
    RootShare,
    RotationPause,
)
from svc.model.policy.version import PolicyVersion

_PAUSE = "pause:"
_UNKNOWN = RotationPause(
    is_paused=True, since=0.0, by="nobody known", reason="its row is not as it was signed"
)


@frozen
class ClusterState:
    """People, nodes, catalog, policy and issuing CAs as of one moment.

    ``revision`` counts changes of what the policy looks at.  ``absent`` are the
    subjects that should be here and are not, because the store does not hold
    what was signed for (rule R8).  ``keys`` are by kind and revision.
    ``delegations`` are those that last.  ``revoked_certificates`` are people's that have not
    expired: by hash, when they do.
    """

    people: Mapping[str, Person] = field(factory=dict)
    groups: tuple[str, ...] = ()
    agents: Mapping[str, Agent] = field(factory=dict)
    delegations: Mapping[str, Delegation] = field(factory=dict)
    nodes: Mapping[str, Node] = field(factory=dict)
    catalog: Mapping[str, Resource] = field(factory=dict)
    policy: PolicyVersion | None = None
    revision: int = 0
    absent: frozenset[str] = frozenset()
    keys: Mapping[str, KeyRevision] = field(factory=dict)
    epochs: Mapping[str, Epoch] = field(factory=dict)
    roots: Mapping[str, DistributionRoot] = field(factory=dict)
    root_owners: Mapping[str, RootOwner] = field(factory=dict)
    root_shares: Mapping[str, RootShare] = field(factory=dict)
    key_sets: Mapping[str, KeySet] = field(factory=dict)
    pauses: Mapping[str, RotationPause] = field(factory=dict)
    revoked_certificates: Mapping[bytes, float] = field(factory=dict)

    @property
    def gate_epoch(self) -> int:
        """The epoch of the SSH gate in force; 0: it is off."""
        known = self.epochs.get(SSH_GATE)
        return 0 if known is None else known.epoch

    @property
    def pause(self) -> RotationPause | None:
        """The pause of rotation; None: it is not paused.

        Where the row is not as it was signed, nobody knows that it was ended: then it lasts.
        """
        if any(subject.startswith(_PAUSE) for subject in self.absent):
            return _UNKNOWN
        return next((one for one in self.pauses.values() if one.is_paused), None)
