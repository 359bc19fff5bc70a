"""A cluster around a Proxy under a test's control: a real Authority, a real Connector, real people.

One a process, made by the first test that asks for it.  Authority and the
Connector are processes; people, Proxies under control and their keys are in
this one, so that a test can sign, alter and replay whatever they hold.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from attrs import define, field
from google.protobuf.message import Message
from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.task import deferLater

from svc.compose.drop_ins import load_kinds
from svc.config import Address
from svc.interfaces.kinds import ServedKind
from svc.join.enroll import JoinRequest, enroll_direct, with_audit_key
from svc.model.cluster.token import parse_token
from svc.model.principal import Role
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import make_request
from svc.pki.join import adopt_identity
from svc.pki.keyring import load_keys
from svc.pki.root import ClusterKeys
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.rpc.client.channel import dial
from svc.rpc.client.endpoints import dialed
from svc.testing.gateway.gateway import Gateway, init_gateway
from svc.testing.gateway.processes import TIMEOUT_SECS, Child, TooLate
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, POLICY, PROXY, SHORT, numbers_of

reactor: Any = _reactor
_T = TypeVar("_T")

EVIL, OTHER = "evil", "other"
"""The two Proxies under control; the Connector dials both."""

BANNER = b"SSH-2.0-target\r\n"


class Door:
    """A target behind the Connector: counts who comes, keeps what it hears, returns it."""

    def __init__(self, greeting: bytes = b"") -> None:
        self._callers: list[int] = []
        self._own: set[int] = set()
        self.heard = bytearray()
        self._greeting = greeting
        self._port = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._port.getsockname()[1]}"

    async def callers(self) -> int:
        """How many came so far: whoever came before this was asked is counted."""
        with socket.create_connection(self._port.getsockname()) as own:
            port = own.getsockname()[1]
            self._own.add(port)
            # They are accepted in the order in which they came.
            await eventually("a target", lambda: port in self._callers)
        return self.counted

    @property
    def counted(self) -> int:
        """How many came, but for whoever is just being accepted."""
        return sum(port not in self._own for port in self._callers)

    def _serve(self) -> None:
        while True:
            peer, (_, port) = self._port.accept()
            self._callers.append(port)
            threading.Thread(target=self._one, args=(peer,), daemon=True).start()

    def _one(self, peer: socket.socket) -> None:
        with peer:
            try:
                peer.sendall(self._greeting)
                while piece := peer.recv(65536):
                    self.heard += piece
                    peer.sendall(piece)
            except OSError:
                pass  # the Connector let it go


@define(eq=False, slots=False)
class Stage:
    """See the module.

    Attributes:
        ports: Listening sockets of the Proxies under control, kept open between tests.
        proxies: Their identities; ``people`` likewise.
        connector_id: Of the real Connector.
    """

    gateway: Gateway
    doors: dict[str, Door]
    ports: dict[str, socket.socket]
    proxies: dict[str, TransportIdentity] = field(factory=dict)
    people: dict[str, TransportIdentity] = field(factory=dict)
    connector_id: str = ""

    @property
    def directory(self) -> Path:
        """Everything of this stage."""
        return self.gateway.directory

    @property
    def authority(self) -> Child:
        """The process."""
        return self.gateway.roles[AUTHORITY]

    @property
    def connector(self) -> Child:
        """The process."""
        return self.gateway.roles[CONNECTOR]

    def address(self, listener: str) -> Address:
        """Of one of Authority's listeners."""
        return address_of(self.gateway.listening(AUTHORITY)[listener])

    def public(self, proxy: str) -> Address:
        """Where a Proxy under control listens, or the real one."""
        if proxy == PROXY:
            return address_of(self.gateway.public)
        return Address("127.0.0.1", self.ports[proxy].getsockname()[1])

    def keys(self) -> ClusterKeys:
        """What only Authority should hold: to make what a thief of one key could."""
        directory = self.gateway.files.state(AUTHORITY) / "keys"
        return load_keys(directory, time.time, os.urandom, cluster=self.gateway.files.cluster)

    async def admin(self, method: str, request: Message, response: type[Any]) -> Any:
        """One call over Authority's control socket."""
        path = str(self.gateway.files.state(AUTHORITY) / "control.sock")
        channel = await dial(UNIXClientEndpoint(reactor, path), reactor, plaintext=True)
        try:
            return await channel.unary(f"/gate.v1.Admin/{method}", request, response, timeout=10)
        finally:
            await channel.close()

    async def token(self, name: str, role: Role, *groups: str) -> str:
        """A join token for a node or a person."""
        if role is Role.USER:
            asked: Message = pb.AddPersonRequest(name=name, groups=groups, create_groups=True)
            return str((await self.admin("AddPerson", asked, pb.TokenResponse)).token)
        names = ["localhost", "127.0.0.1"] if role is Role.PROXY else []
        asked = pb.AddNodeRequest(role=role.value, name=name, public_names=names)
        return str((await self.admin("AddNode", asked, pb.TokenResponse)).token)

    async def join(self, name: str, role: Role, *groups: str) -> TransportIdentity:
        """An identity in this process, from a token, at Authority's join listener."""
        token = parse_token(await self.token(name, role, *groups))
        directory = self.directory / f"holder-{name}"
        directory.mkdir(mode=0o700)
        store = IdentityStore(directory)
        key = store.pending_key()
        gateway = self.gateway
        asking = JoinRequest(
            pin=gateway.pin, token=token, csr=make_request(key), cluster=gateway.files.cluster
        )
        if role.is_node:
            asking = with_audit_key(asking, store.audit_key())
        endpoint = dialed(reactor, self.address("join"))
        enrolled = await enroll_direct(endpoint, reactor, time.time, asking)
        return adopt_identity(
            store,
            key,
            cluster=gateway.files.cluster,
            pin=gateway.pin,
            root=enrolled.root,
            chain=enrolled.chain,
            roles=frozenset({role}),
            now=time.time,
        )

    async def add_resource(self, name: str, kind: str, node: str) -> None:
        """Give a resource to a node."""
        asked = pb.AddResourceRequest(id=name, kind=kind, node=node)
        await self.admin("AddResource", asked, pb.AddResourceResponse)

    async def add_connector(self, name: str, *, through: str = "", **resources: str) -> Child:
        """Start a real Connector; it joins through a Proxy under control, or directly.

        Args:
            through: The Proxy whose join lane it takes; it dials all of them later.
            resources: Kind by id.
        """
        files = self.gateway.files
        state, token = files.state(name), files.token(name)
        state.mkdir(mode=0o700, exist_ok=True)
        token.touch(mode=0o600)
        token.write_text(await self.token(name, Role.CONNECTOR), "utf-8")
        proxies = [through] if through else list(self.ports)
        table: dict[str, Any] = {
            "cluster": self.gateway.files.cluster,
            "state_dir": str(state),
            **numbers_of(CONNECTOR, SHORT),
            "endpoints.proxy": [str(self.public(each)) for each in proxies],
            "connector.proxy_connection_count": len(proxies),
            "connector.resources": [
                {"id": id, "kind": kind, "address": self.doors[kind].address}
                for id, kind in resources.items()
            ],
            "join.token_file": str(token),
            "join.ca_pin": self.gateway.pin,
        }
        if not through:
            table["join.authority"] = str(self.address("join"))
        files.write(name, table)
        child = self.gateway.make_child(name, CONNECTOR)
        child.start()
        await eventually(f"{name} joined", (state / "identity" / "current").exists, [child])
        return child

    def real_proxy(self) -> Child:
        """A Proxy that is one: a process, made when first asked for."""
        if PROXY not in self.gateway.roles:
            self.gateway.make_proxy()
        return self.gateway.roles[PROXY]

    async def set_policy(self, text: str) -> int:
        """Put a policy in force, and wait until the real Proxy decides by it; its version."""
        asked = pb.SetPolicyRequest(text=text)
        version = int((await self.admin("SetPolicy", asked, pb.SetPolicyResponse)).version)
        child = self.real_proxy()

        def taken() -> bool:
            return version in [one["version"] for one in child.events("policy snapshot taken")]

        await eventually("the policy at the Proxy", taken, [child])
        return version

    def records(self, field_name: str, value: str) -> list[dict[str, Any]]:
        """The audit records whose *field_name* is *value*, oldest first, as they lie in the log."""
        store = f"file:{self.gateway.files.store}?mode=ro"
        with sqlite3.connect(store, uri=True) as log:
            rows = log.execute(
                "SELECT canonical FROM audit_log WHERE json_extract(canonical, ?) = ? ORDER BY seq",
                (f"$.{field_name}", value),
            ).fetchall()
        return [json.loads(row[0]) for row in rows]

    def session_rows(self, uid: str) -> int:
        """How many session rows have this uid."""
        store = f"file:{self.gateway.files.store}?mode=ro"
        with sqlite3.connect(store, uri=True) as log:
            found = log.execute("SELECT count(*) FROM sessions WHERE uid = ?", (uid,)).fetchone()
        return int(found[0])


_stage: Stage | None = None


async def stage() -> Stage:
    """The stage of this process, made at the first call and ended with the process."""
    global _stage
    if _stage is None:
        _stage = await _made()
    return _stage


async def _made() -> Stage:
    gateway = init_gateway()
    gateway.make_authority()
    ports = {name: socket.create_server(("127.0.0.1", 0)) for name in (EVIL, OTHER)}
    for port in ports.values():
        port.setblocking(False)
    made = Stage(gateway, {"tcp": Door(), "ssh": Door(BANNER)}, ports)
    await made.add_connector(CONNECTOR, db1="tcp", host1="ssh")
    for name in ports:
        made.proxies[name] = await made.join(name, Role.PROXY)
    made.people["ada"] = await made.join("ada", Role.USER, "ops")
    made.people["bob"] = await made.join("bob", Role.USER)
    await made.add_resource("db1", "tcp", CONNECTOR)
    await made.add_resource("host1", "ssh", CONNECTOR)
    listed = await made.admin("ListNodes", pb.ListNodesRequest(), pb.ListNodesResponse)
    # Last: what is decided by then knows everything above.
    await made.admin("SetPolicy", pb.SetPolicyRequest(text=POLICY), pb.SetPolicyResponse)
    [made.connector_id] = [node.id for node in listed.nodes if node.name == CONNECTOR]
    return made


async def eventually(
    what: str,
    look: Callable[[], _T],
    alive: list[Child] | None = None,
    seconds: float = TIMEOUT_SECS,
) -> _T:
    """As ``svc.testing.gateway.processes.until``, while the reactor runs.

    Raises:
        TooLate: with the last words of the children.
    """
    end = time.monotonic() + seconds
    children = alive or []
    while not (found := look()):
        if time.monotonic() > end or any(not child.is_alive for child in children):
            last = "\n".join(f"--- {child.name}\n{child.tail()}" for child in children)
            raise TooLate(f"{what}: not in time\n{last}")
        await deferLater(reactor, 0.02)
    return found


async def within(waiting: Deferred[_T], seconds: float = TIMEOUT_SECS) -> _T:
    """What a Deferred gives, with a deadline."""
    return await waiting.addTimeout(seconds, reactor)


def kinds() -> dict[str, ServedKind]:
    """The kinds there are."""
    return dict(load_kinds(["tcp", "ssh"]).by_name)


def address_of(text: str) -> Address:
    """An address as ``listening.json`` has it."""
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))
