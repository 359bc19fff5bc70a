"""Decides whether a Connector's registration is accepted: a pure function of its input.

The seven refusals of document 1 are spelled here, once, as reason words
(G-OPEN-04); which log line and metric follow is the Proxy's matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from svc.authority.state.cluster import ClusterState
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.messages.tunnel import decode_registration
from svc.model.cluster.node import Node, NodeState
from svc.model.cluster.registration import (
    GATE_NOT_OFFERED,
    GATED_KINDS,
    PERMITS_NONE,
    Registration,
    Withheld,
)
from svc.model.cluster.resource import Assigned, Undeclared
from svc.model.cluster.scope import MODE_REQUIRED
from svc.model.cluster.unserved import KIND_MISMATCH, NOT_IN_CATALOG
from svc.model.ids import is_resource_id
from svc.model.principal import Role
from svc.model.signing import Purpose, Signed, verify

MALFORMED = "malformed_registration"


class RegistrationRefused(SvcError):
    """A registration that Authority does not accept; ``reason`` is the stable word."""

    fault = Fault.PRECONDITION
    reason = MALFORMED


class ProvenRefusal(RegistrationRefused):
    """A refusal of what the Connector itself signed, not of what a Proxy made up."""


_TOLD = 5
"""So many resources are named in a refusal; a Connector may declare thousands."""


class OwnedByPeer(ProvenRefusal):
    """Declared resources are assigned to other nodes.

    The Connector, and the Proxy between, is told of its own resources alone; the operator's log
    names their owners too.

    Attributes:
        owned: For the log: each resource with its owner, and whether that one was revoked.
        do: The command that gives this node what a single owner has.
    """

    fault = Fault.EXISTS
    reason = "resource_owned_by_peer"

    def __init__(self, node: Node, owners: Mapping[str, Node | None]) -> None:
        ids = sorted(owners)
        more = f" and {len(ids) - _TOLD} more" if len(ids) > _TOLD else ""
        are, them = ("is", "it") if len(ids) == 1 else ("are", "them")
        super().__init__(
            f"{', '.join(ids[:_TOLD])}{more} {are} assigned to another node: have an operator "
            f"assign {them} to this node (`svc authority resources assign`, or `move` if this "
            f"node replaces another), or remove {them} from connector.resources"
        )
        self.owned = [f"{each} by {_called(owners[each])}" for each in ids[:_TOLD]]
        nodes = {owner.id for owner in owners.values() if owner is not None}
        self.do = (
            f"svc authority resources move --from {nodes.pop()} --to {node.id}"
            if len(nodes) == 1
            else f"svc authority resources assign ID --node {node.id}"
        )


def _called(owner: Node | None) -> str:
    if owner is None:
        return "a node that is not in force"
    return f"{owner.name} ({owner.id}, {owner.state.value})"


class PermitsNone(ProvenRefusal):
    """Nothing that a Connector declares is its to serve.

    Attributes:
        undeclared: What the catalog should show as offered but not given.
    """

    reason = PERMITS_NONE

    def __init__(self, undeclared: tuple[Undeclared, ...], ids: Sequence[str]) -> None:
        more = f" and {len(ids) - _TOLD} more" if len(ids) > _TOLD else ""
        super().__init__(
            f"the catalog gives this Connector nothing of what it declares: "
            f"{', '.join(ids[:_TOLD]) or 'nothing'}{more}; correct the ids and kinds in "
            "connector.resources, or have an operator add and assign them: `svc authority "
            "resources add`, `svc authority resources list`"
        )
        self.undeclared = undeclared


@frozen
class AdmittedRegistration:
    """What a registration comes to: what the node serves, and what it is not given."""

    node: Node
    registration: Registration
    served: tuple[Assigned, ...]
    withheld: tuple[Withheld, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Of what it serves."""
        return tuple(one.id for one in self.served)

    @property
    def reasons(self) -> Mapping[str, str]:
        """What it is not given, and why."""
        return {one.id: one.reason for one in self.withheld}

    def undeclared(self, at: float) -> tuple[Undeclared, ...]:
        """What the catalog should show as offered but not given."""
        kinds = {one.id: one.kind for one in self.registration.resources}
        return tuple(
            Undeclared(id=one.id, kind=kinds[one.id], node_id=self.node.id, seen_at=at)
            for one in self.withheld
            if one.reason == NOT_IN_CATALOG
        )


@frozen
class Expected:
    """What a registration must answer to: this Proxy, this challenge, this cluster.

    ``peer_node_id`` is whom the Proxy saw in the tunnel's TLS.
    """

    cluster: str
    proxy_id: str
    nonce: bytes
    peer_node_id: str


def verify_registration(
    signed: Signed,
    expected: Expected,
    verifier: IChainVerifier,
    facts: ClusterState,
    at: float,
) -> AdmittedRegistration:
    """Accept a registration or refuse it.

    Args:
        at: When it came, in seconds since the epoch.

    Raises:
        ProvenRefusal: with one of the reason words of G-OPEN-04.
        SvcError: nothing proves that the named node said it.
    """
    certificate = verifier.verify(signed.chain, {Role.CONNECTOR})
    verify(certificate.public_key, Purpose.REGISTRATION, signed.payload, signed.signature)
    if certificate.principal.id != expected.peer_node_id:
        raise _courier("the Proxy named a different node from the one that signed")
    try:
        registration = decode_registration(signed.payload)
    except Malformed as e:
        raise _courier(e.text) from None
    _check_form(registration, expected, certificate.principal.id)
    node = _active(facts.nodes.get(certificate.principal.id))
    _check_ownership(registration, node, facts)
    served, withheld = divide(registration, node, facts)
    # One that is only too old for the gate keeps its registration: nothing of it is wrong.
    admitted = AdmittedRegistration(
        node=node, registration=registration, served=served, withheld=withheld
    )
    if not served and all(one.reason != GATE_NOT_OFFERED for one in withheld):
        ids = sorted(one.id for one in registration.resources)
        raise PermitsNone(admitted.undeclared(at), ids)
    return admitted


def _check_form(registration: Registration, expected: Expected, node_id: str) -> None:
    # Up to the nonce a refusal is the Proxy's doing: a node has signed this at some time, for
    # somebody, but which registration is brought is the courier's choice (rule R1).
    if (registration.cluster, registration.proxy_id) != (expected.cluster, expected.proxy_id):
        raise _courier("the registration was made for another cluster or Proxy")
    if registration.nonce != expected.nonce:
        raise _courier("the registration does not answer this challenge")
    if registration.node_id != node_id:
        raise _malformed("the registration names a different node from its certificate")
    ids = [one.id for one in registration.resources]
    if len(set(ids)) != len(ids):
        raise _malformed("a resource is declared twice")
    if not all(is_resource_id(one) for one in ids):
        raise _malformed("a resource id is not a DNS label")
    if any(not one.kind for one in registration.resources):
        raise ProvenRefusal(
            "the registration carries no resource kinds", reason="no_resource_kinds"
        )


def _active(node: Node | None) -> Node:
    if node is None:
        raise ProvenRefusal(
            "the node is not in the registry", reason="unknown_node", fault=Fault.DENIED
        )
    if node.state is NodeState.REVOKED:
        raise ProvenRefusal("the node was revoked", reason="revoked_node", fault=Fault.DENIED)
    return node


def _check_ownership(registration: Registration, node: Node, facts: ClusterState) -> None:
    owners: dict[str, Node | None] = {}
    for declared in registration.resources:
        known = facts.catalog.get(declared.id)
        # What it found, another one may have found before: that refuses nothing else.
        if declared.discovered or known is None:
            continue
        if known.assigned_to not in (None, node.id):
            owners[known.id] = facts.nodes.get(known.assigned_to or "")
    if owners:
        raise OwnedByPeer(node, owners)


def divide(
    registration: Registration, node: Node, facts: ClusterState
) -> tuple[tuple[Assigned, ...], tuple[Withheld, ...]]:
    """What of a registration the catalog gives this node, and what it withholds."""
    served: list[Assigned] = []
    withheld: list[Withheld] = []
    for declared in registration.resources:
        known = facts.catalog.get(declared.id)
        if known is None or known.assigned_to != node.id:
            withheld.append(Withheld(declared.id, NOT_IN_CATALOG))
        elif known.kind != declared.kind:
            withheld.append(Withheld(declared.id, KIND_MISMATCH))
        elif known.kind in GATED_KINDS and registration.gate_epoch < facts.gate_epoch:
            withheld.append(Withheld(declared.id, GATE_NOT_OFFERED))
        elif known.lacks_mode:
            withheld.append(Withheld(declared.id, MODE_REQUIRED))
        else:
            served.append(known.assigned)
    return tuple(served), tuple(withheld)


def _courier(text: str) -> RegistrationRefused:
    return RegistrationRefused(text, fault=Fault.INVALID)


def _malformed(text: str) -> ProvenRefusal:
    return ProvenRefusal(text, reason=MALFORMED, fault=Fault.INVALID)
