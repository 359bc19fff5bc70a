"""Nodes, as operators add, list and revoke them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define, field

from svc.authority.enroll.expected import ExpectedKeysAdmin
from svc.authority.registry.peers import PeerProxies
from svc.authority.registry.tokens import TokenAdmin
from svc.authority.registry.words import already_exists, checked_name
from svc.authority.state.tables import NODES
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.messages.health import health_row
from svc.model.audit.events import NODE_REVOKE
from svc.model.audit.record import Actor
from svc.model.cluster.health import NodeHealth
from svc.model.cluster.node import Node, NodeState, Publication, TokenRole, leaf_problem
from svc.model.cluster.registration import SSH_GATE
from svc.model.ids import is_cluster_name
from svc.model.policy.requests import is_address
from svc.model.session.ending import PROXY_REVOKED
from svc.proto.gate.v1 import admin_pb2 as pb

_MAX_NAMES = 64

NODE_TOKENS = {"proxy": TokenRole.PROXY, "connector": TokenRole.CONNECTOR}


@define
class MemberAdmin:
    """Adds, lists and revokes nodes.

    Attributes:
        peers: Knows which nodes are connected.
        proxy_revoked: Told when a Proxy was revoked.
        leaf_secs: The life of a node's certificate, in seconds.
    """

    writer: StateWriter
    peers: PeerProxies
    tokens: TokenAdmin
    proxy_revoked: Callable[[str], object]
    leaf_secs: float
    expected: ExpectedKeysAdmin = field()

    @expected.default
    def _expecting(self) -> ExpectedKeysAdmin:
        return ExpectedKeysAdmin(self.writer, self.tokens.ca_pin)

    async def add_node(self, request: pb.AddNodeRequest, actor: Actor) -> pb.TokenResponse:
        """Make a token for a node of this role and name."""
        role, name, names = _node_words(request)
        token = self.tokens.new()
        row = self.tokens.record(token, role, name, request.ttl_secs, names)

        def add(tx: ITransaction) -> None:
            if tx.nodes.named(name) is not None:
                raise already_exists(f"node {name}: an active node already has that name")
            self.tokens.add(tx, row, actor)

        await self.writer.change_beside_policy("add a node", add)
        return self.tokens.response(token, row)

    async def expect_node(
        self, request: pb.ExpectNodeRequest, actor: Actor
    ) -> pb.ExpectNodeResponse:
        """Let the holder of a key join once as a node of this role and name, without a token."""
        role, name, names = _node_words(request)
        ttl = self.tokens.ttl(request.ttl_secs)
        return await self.expected.expect(request.key_sha256, role, name, ttl, names, actor)

    async def list_nodes(self, request: pb.ListNodesRequest, actor: Actor) -> pb.ListNodesResponse:
        """Every node, revoked ones included, with what it last reported."""

        def look(
            tx: ITransaction,
        ) -> tuple[Sequence[Node], Mapping[str, int], Mapping[str, NodeHealth], Mapping[str, int]]:
            offers = tx.epochs.offers(SSH_GATE)
            return tx.nodes.all(), tx.inventories.all(), tx.health.all(), offers

        nodes, inventories, health, offers = await self.writer.read("list nodes", look)
        rows = [self._node_row(one, inventories, health.get(one.id)) for one in nodes]
        for row in rows:
            row.epoch_capability = offers.get(row.id, 0)
        return pb.ListNodesResponse(nodes=rows)

    def _node_row(
        self, one: Node, inventories: Mapping[str, int], health: NodeHealth | None
    ) -> pb.NodeRow:
        row = _node_row(one)
        if health is not None:
            row.health.CopyFrom(health_row(health, self.writer.now()))
            row.last_seen = max(row.last_seen, row.health.at)
        row.resources = sum(
            each.assigned_to == one.id for each in self.writer.cache.state.catalog.values()
        )
        row.inventory_generation = inventories.get(one.id, 0)
        row.inventory_served = self.peers.registrations.inventory(one.id) or 0
        self._connections(one, row)
        if one.state is NodeState.ACTIVE:
            row.certificate = leaf_problem(one.leaf, self.writer.now(), self.leaf_secs)
        row.publication = one.publication.value if one.role == "connector" else ""
        return row

    def _connections(self, one: Node, row: pb.NodeRow) -> None:
        """What is known of the connections of a Proxy or a Connector."""
        if one.role == TokenRole.PROXY.value:
            row.connected = bool(self.peers.streams(one.id))
        elif one.role == TokenRole.CONNECTOR.value:
            registrations = self.peers.registrations
            through = {each.proxy_id for each in registrations.of_node(one.id)}
            row.connected = bool(through)
            row.proxies.extend(map(self._name, sorted(through)))
            if through:
                missing = (each for each in self.peers.here if each not in through)
                row.missing.extend(map(self._name, missing))
            else:
                row.refusal = registrations.refusal(one.id)

    def _name(self, node_id: str) -> str:
        known = self.writer.cache.state.nodes.get(node_id)
        return node_id if known is None else known.name

    async def revoke_node(
        self, request: pb.RevokeNodeRequest, actor: Actor
    ) -> pb.RevokeNodeResponse:
        """Revoke a node by id or active name; its tunnels end as ``evicted``."""
        reason = request.reason or "operator"

        def revoke(tx: ITransaction) -> Node:
            known = self.writer.rows(tx).node_called(request.node)
            if known is None:
                raise SvcError(
                    f"node {request.node}: not in the registry; see `svc authority nodes list`",
                    reason="unknown_node",
                    fault=Fault.NOT_FOUND,
                )
            if tx.nodes.revoke(known.id, self.writer.now()):
                self.writer.append(
                    tx,
                    NODE_REVOKE,
                    actor,
                    node_id=known.id,
                    reason=reason,
                    details={"serial": known.leaf.serial, "role": known.role},
                    state=[NODES.now(tx, known.id)],
                )
            return known

        known = await self.writer.change("revoke a node", revoke)
        is_proxy = known.role == TokenRole.PROXY.value
        word = PROXY_REVOKED if is_proxy else "revoked_node"
        ended = self.peers.registrations.evict(known.id, word)
        if is_proxy:
            self.proxy_revoked(known.id)
        return pb.RevokeNodeResponse(id=known.id, tunnels_ended=ended)

    async def set_publication(
        self, request: pb.SetPublicationRequest, actor: Actor
    ) -> pb.SetPublicationResponse:
        """Set how a Connector's offers enter the catalog; only ``manual`` is supported."""

        def look(tx: ITransaction) -> Node | None:
            return self.writer.rows(tx).node_called(request.node)

        known = await self.writer.read("look at a node", look)
        if known is None or known.state is NodeState.REVOKED or known.role != "connector":
            raise SvcError(
                f"node {request.node}: no active Connector of that id or name",
                reason="unknown_node",
                fault=Fault.NOT_FOUND,
            )
        if request.mode not in ("", *(one.value for one in Publication)):
            raise Malformed("publication: must be manual or automatic")
        if request.mode == Publication.AUTOMATIC.value:
            raise SvcError(
                "publication: this version does not support automatic; add the resources that "
                "the Connector offers with `svc authority resources add`",
                reason="publication_not_here",
                fault=Fault.UNIMPLEMENTED,
            )
        return pb.SetPublicationResponse(mode=known.publication.value)


def _node_words(
    request: pb.AddNodeRequest | pb.ExpectNodeRequest,
) -> tuple[TokenRole, str, tuple[str, ...]]:
    """What a node is to be: role, name, and the names that its certificate carries."""
    role = NODE_TOKENS.get(request.role)
    if role is None:
        raise Malformed("role: must be proxy or connector")
    name = checked_name(request.name, "name")
    if request.public_names and role is not TokenRole.PROXY:
        raise Malformed("public names: apply only to a Proxy")
    if len(request.public_names) > _MAX_NAMES:
        raise Malformed(f"public names: at most {_MAX_NAMES}")
    for public in request.public_names:
        if not (is_cluster_name(public) or is_address(public)):
            raise Malformed("public name: must be a DNS name in lower case, or an IP address")
    return role, name, tuple(request.public_names)


def _node_row(one: Node) -> pb.NodeRow:
    return pb.NodeRow(
        id=one.id,
        name=one.name,
        role=one.role,
        state=one.state.value,
        version=one.version,
        leaf_serial=one.leaf.serial,
        leaf_expires=int(one.leaf.expires),
        last_seen=int(one.last_seen or 0),
        enrolled_at=int(one.enrolled_at),
    )
