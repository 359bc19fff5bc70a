"""Nodes, persons and groups, as operators change and list them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from attrs import define, field

from svc.authority.enroll.expected import ExpectedKeysAdmin
from svc.authority.registry.routes import Registrations
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder
from svc.authority.state.tables import NODES, PERSONS, TOKENS
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import GROUP_ADD, GROUP_JOIN, NODE_REVOKE, PERSON_ADD, TOKEN_CREATE
from svc.model.audit.record import Actor
from svc.model.audit.state import StateEntry, group_entry
from svc.model.cluster.node import Node, NodeState, Publication, TokenRole
from svc.model.cluster.node import TokenRecord as TokenRow
from svc.model.cluster.person import Person, PersonState
from svc.model.cluster.token import JoinToken, make_token
from svc.model.ids import Entropy, is_cluster_name, person_id
from svc.model.policy.requests import is_address
from svc.model.session.ending import PROXY_REVOKED
from svc.proto.gate.v1 import admin_pb2 as pb

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}\Z")
_MAX_TTL = 7 * 86400
_MAX_NAMES = 64
SALT_BYTES = 16

NODE_TOKENS = {"proxy": TokenRole.PROXY, "connector": TokenRole.CONNECTOR}


@define
class MemberAdmin:
    """Adds, lists and revokes members.

    Attributes:
        ca_pin: SHA-256 of the cluster root in hex; goes with every token.
        token_secs: How long a token waits when the operator names no time.
        proxy_revoked: Told when a Proxy was revoked.
    """

    state_cache: ClusterStateCache
    registrations: Registrations
    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    entropy: Entropy
    ca_pin: str
    token_secs: float
    proxy_revoked: Callable[[str], object]
    expected: ExpectedKeysAdmin = field()

    @expected.default
    def _expecting(self) -> ExpectedKeysAdmin:
        return ExpectedKeysAdmin(
            state_cache=self.state_cache,
            store=self.store,
            recorder=self.recorder,
            now=self.now,
            entropy=self.entropy,
            ca_pin=self.ca_pin,
        )

    async def add_node(self, request: pb.AddNodeRequest, actor: Actor) -> pb.TokenResponse:
        """Make a token for a node of this role and name."""
        role, name, names = _node_words(request)
        token = make_token(self.entropy)
        row = self._row(token, role, name, request.ttl_secs, names)

        def add(tx: ITransaction) -> None:
            if tx.nodes.named(name) is not None:
                raise _exists(f"node {name}: an active node already has that name")
            self._add_token(tx, row, actor)

        await self.store.run("add a node", add)
        await self.state_cache.catch_up()
        return pb.TokenResponse(
            token=token.text, ca_pin=self.ca_pin, expires_at=int(row.expires_at)
        )

    async def expect_node(
        self, request: pb.ExpectNodeRequest, actor: Actor
    ) -> pb.ExpectNodeResponse:
        """Let the holder of a key join once as a node of this role and name, without a token."""
        role, name, names = _node_words(request)
        ttl = self._ttl(request.ttl_secs)
        return await self.expected.expect(request.key_sha256, role, name, ttl, names, actor)

    async def list_nodes(self, request: pb.ListNodesRequest, actor: Actor) -> pb.ListNodesResponse:
        """Every node, revoked ones included, with what the registry last saw."""

        def look(tx: ITransaction) -> tuple[Sequence[Node], Mapping[str, int]]:
            return tx.nodes.all(), tx.inventories.all()

        nodes, inventories = await self.store.read("list nodes", look)
        return pb.ListNodesResponse(nodes=[self._node_row(one, inventories) for one in nodes])

    def _node_row(self, one: Node, inventories: Mapping[str, int]) -> pb.NodeRow:
        row = _node_row(one)
        row.resources = sum(
            each.assigned_to == one.id for each in self.state_cache.state.catalog.values()
        )
        row.inventory_generation = inventories.get(one.id, 0)
        row.inventory_served = self.registrations.inventory(one.id) or 0
        row.publication = one.publication.value if one.role == "connector" else ""
        return row

    async def revoke_node(
        self, request: pb.RevokeNodeRequest, actor: Actor
    ) -> pb.RevokeNodeResponse:
        """Revoke a node by id or active name; its tunnels end as ``evicted``."""
        reason = request.reason or "operator"

        def revoke(tx: ITransaction) -> Node:
            known = self.recorder.rows(tx).node_called(request.node)
            if known is None:
                raise SvcError(
                    f"node {request.node}: not in the registry",
                    reason="unknown_node",
                    fault=Fault.NOT_FOUND,
                )
            if tx.nodes.revoke(known.id, self.now()):
                self.recorder.append(
                    tx,
                    NODE_REVOKE,
                    actor,
                    node_id=known.id,
                    reason=reason,
                    details={"serial": known.leaf.serial, "role": known.role},
                    state=[NODES.now(tx, known.id)],
                )
            return known

        known = await self.store.run("revoke a node", revoke)
        await self.state_cache.refresh()
        is_proxy = known.role == TokenRole.PROXY.value
        word = PROXY_REVOKED if is_proxy else "revoked_node"
        ended = self.registrations.evict(known.id, word)
        if is_proxy:
            self.proxy_revoked(known.id)
        return pb.RevokeNodeResponse(id=known.id, tunnels_ended=ended)

    async def set_publication(
        self, request: pb.SetPublicationRequest, actor: Actor
    ) -> pb.SetPublicationResponse:
        """Set how a Connector's offers enter the catalog; only ``manual`` is supported."""

        def look(tx: ITransaction) -> Node | None:
            return self.recorder.rows(tx).node_called(request.node)

        known = await self.store.read("look at a node", look)
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

    async def add_person(self, request: pb.AddPersonRequest, actor: Actor) -> pb.TokenResponse:
        """Add a person, or a new token for one that is there, and give the token once.

        Groups are joined by one who is there only where the request says so, and are made only
        where it says so: neither may follow from a name that was mistyped or used before.
        """
        name = _checked(request.name, "name")
        groups = tuple(sorted({_checked(group, "group") for group in request.groups}))
        token = make_token(self.entropy)

        def add(tx: ITransaction) -> tuple[Person, TokenRow]:
            known = self.recorder.rows(tx).person_named(name)
            self._need_groups(tx, groups, create=request.create_groups)
            if known is None:
                known = self._add_person(tx, name, groups, actor)
            elif known.state is PersonState.REVOKED:
                raise SvcError(
                    f"person {name}: was revoked",
                    reason="revoked_person",
                    fault=Fault.PRECONDITION,
                )
            else:
                _check_joining(known, groups, join=request.join_groups)
                self._join(tx, known, groups, actor)
            row = self._row(token, TokenRole.PERSON, known.id, request.ttl_secs)
            self._add_token(tx, row, actor)
            return known, row

        known, row = await self.store.run("add a person", add)
        await self.state_cache.refresh()
        return pb.TokenResponse(
            token=token.text, ca_pin=self.ca_pin, expires_at=int(row.expires_at), id=known.id
        )

    async def list_persons(
        self, request: pb.ListPersonsRequest, actor: Actor
    ) -> pb.ListPersonsResponse:
        """Every person with groups."""
        people = await self.store.read("list persons", lambda tx: tx.people.all())
        rows = [
            pb.PersonRow(id=one.id, name=one.name, state=one.state.value, groups=one.groups)
            for one in people
        ]
        return pb.ListPersonsResponse(persons=rows)

    async def add_group(self, request: pb.AddGroupRequest, actor: Actor) -> pb.AddGroupResponse:
        """Add a group; adding one that is there changes nothing."""
        name = _checked(request.name, "group")

        def add(tx: ITransaction) -> bool:
            return self._ensure_group(tx, name, actor)

        added = await self.store.run("add a group", add)
        await self.state_cache.refresh()
        return pb.AddGroupResponse(added=added)

    def _need_groups(self, tx: ITransaction, groups: tuple[str, ...], *, create: bool) -> None:
        rows = self.recorder.rows(tx)
        absent = [group for group in groups if not rows.group(group)]
        if absent and not create:
            raise SvcError(
                f"group {', '.join(absent)}: does not exist; create it with `svc authority "
                f"groups add {absent[0]}`, or give --create-groups",
                reason="unknown_group",
                fault=Fault.NOT_FOUND,
            )

    def _add_person(
        self, tx: ITransaction, name: str, groups: tuple[str, ...], actor: Actor
    ) -> Person:
        for group in groups:
            self._ensure_group(tx, group, actor)
        salt = self.entropy(SALT_BYTES)
        added = Person(person_id(self.entropy), name, groups=groups, salt=salt)
        tx.people.add(added, self.now())
        self.recorder.append(
            tx,
            PERSON_ADD,
            actor,
            details={"person_id": added.id, "name": added.name},
            state=[PERSONS.now(tx, added.id)],
        )
        for group in groups:
            self._record_join(tx, added, group, actor)
        return added

    def _join(self, tx: ITransaction, known: Person, groups: tuple[str, ...], actor: Actor) -> None:
        joined = tuple(group for group in groups if group not in known.groups)
        if joined:
            for group in joined:
                self._ensure_group(tx, group, actor)
            tx.people.set_groups(known.id, {*known.groups, *joined})
            state = [PERSONS.now(tx, known.id)]  # the first record has it for all of them
            for group in joined:
                self._record_join(tx, known, group, actor, state)
                state = []

    def _record_join(
        self,
        tx: ITransaction,
        known: Person,
        group: str,
        actor: Actor,
        state: Sequence[StateEntry] = (),
    ) -> None:
        details = {"group": group, "person_id": known.id}
        self.recorder.append(tx, GROUP_JOIN, actor, details=details, state=state)

    def _ensure_group(self, tx: ITransaction, name: str, actor: Actor) -> bool:
        if self.recorder.rows(tx).group(name):
            return False
        tx.people.add_group(name, self.now())
        state = [group_entry(name)]
        self.recorder.append(tx, GROUP_ADD, actor, details={"group": name}, state=state)
        return True

    def _row(
        self,
        token: JoinToken,
        role: TokenRole,
        bound_to: str,
        ttl: int,
        names: tuple[str, ...] = (),
    ) -> TokenRow:
        expires = self.now() + self._ttl(ttl)
        return TokenRow(
            id=token.id,
            secret_sha256=token.secret_sha256,
            role=role,
            expires_at=expires,
            bound_to=bound_to,
            names=names,
        )

    def _ttl(self, asked: int) -> float:
        if asked > _MAX_TTL:
            raise Malformed(f"ttl: at most {_MAX_TTL} seconds")
        return asked or self.token_secs

    def _add_token(self, tx: ITransaction, row: TokenRow, actor: Actor) -> None:
        tx.tokens.add(row, self.now())
        details: dict[str, str | int] = {
            "token_id": row.id,
            "role": row.role.value,
            "ttl_seconds": max(0, round(row.expires_at - self.now())),
        }
        if row.role is TokenRole.PERSON and row.bound_to:
            details["person_id"] = row.bound_to
        state = [TOKENS.now(tx, row.id)]
        self.recorder.append(tx, TOKEN_CREATE, actor, details=details, state=state)


def _node_words(
    request: pb.AddNodeRequest | pb.ExpectNodeRequest,
) -> tuple[TokenRole, str, tuple[str, ...]]:
    """What a node is to be: role, name, and the names that its certificate carries."""
    role = NODE_TOKENS.get(request.role)
    if role is None:
        raise Malformed("role: must be proxy or connector")
    name = _checked(request.name, "name")
    if request.public_names and role is not TokenRole.PROXY:
        raise Malformed("public names: apply only to a Proxy")
    if len(request.public_names) > _MAX_NAMES:
        raise Malformed(f"public names: at most {_MAX_NAMES}")
    for public in request.public_names:
        if not (is_cluster_name(public) or is_address(public)):
            raise Malformed("public name: must be a DNS name in lower case, or an IP address")
    return role, name, tuple(request.public_names)


def _checked(name: str, what: str) -> str:
    if _NAME.match(name) is None:
        raise Malformed(
            f"{what}: may have letters, digits and . _ @ -, must start with a letter or digit, "
            "and has at most 128 characters"
        )
    return name


def _check_joining(known: Person, groups: tuple[str, ...], *, join: bool) -> None:
    joined = [group for group in groups if group not in known.groups]
    if joined and not join:
        raise _exists(
            f"person {known.name}: already exists, in {', '.join(known.groups) or 'no group'}; "
            f"to add {known.name} to {', '.join(joined)} as well, give --join-groups"
        )


def _exists(text: str) -> SvcError:
    return SvcError(text, reason="already_exists", fault=Fault.EXISTS)


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
