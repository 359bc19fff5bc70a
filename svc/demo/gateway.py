"""The demo's gateway: made, started, joined by its person, and taken down again."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from google.protobuf.message import Message

from svc.compose.client import make_client
from svc.compose.listeners.unbind import end
from svc.compose.person import client_settings
from svc.compose.process import Process, make_process
from svc.config import Address, load_settings
from svc.demo.database import DemoDatabase
from svc.demo.scene import CONNECTOR, DATABASE, GROUP, PERSON, DemoResource, Scene
from svc.demo.targets import LOOPBACK, Targets
from svc.demo.temporary import DemoDirectory
from svc.demo.waiting import until
from svc.errors import ListenRefused, SvcError
from svc.join.person import prepare, take_identity
from svc.model.cluster.token import parse_token
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.runtime.context import Runtime

Asked = Callable[[str, Message, type[Any]], Awaitable[Any]]
"""``asked(method, request, response_type)``: the Authority while the cluster is made."""

Found = Callable[
    [Path, "DemoPorts", "list[DemoTarget]", Callable[[Asked], Awaitable[None]]], Awaitable[str]
]
"""Makes a cluster for ``svc all`` in a directory; see :class:`DemoGateway`."""


def _quiet(_: str) -> None:
    """The directory is new: nobody else has its identity."""


_START_SECS = 20.0
_ATTEMPTS = 5


@frozen
class DemoPorts:
    """Where the two listeners stand that others must know beforehand."""

    public: int
    control: int


@frozen
class DemoTarget:
    """Where a resource of the demo is.

    Attributes:
        table: Further keys of its table in the Connector's configuration.
    """

    resource: DemoResource
    address: str
    table: Mapping[str, Any] = field(factory=dict)


@define
class DemoGateway:
    """One gateway with its targets and its person, in this process.

    Attributes:
        kept: Where it is made and stays; None for a directory that goes with it.
        found: Makes the cluster: directory, ports, targets, and what puts resources,
            policy and person into it; gives the cluster's pin.
        stopped_by: Told when a role gives up while it runs.
    """

    runtime: Runtime
    kept: Path | None
    found: Found
    stopped_by: Callable[[SvcError], object]
    directory: Path = field(default=Path(), init=False)
    ca_pin: str = field(default="", init=False)
    _temporary: DemoDirectory | None = field(default=None, init=False)
    _token: str = field(default="", init=False, repr=False)
    _process: Process | None = field(default=None, init=False)
    _client: Any = field(default=None, init=False)
    _targets: Targets = field(init=False)
    database: DemoDatabase = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._targets = Targets(self.runtime.reactor, self.runtime.entropy)
        self.database = DemoDatabase(
            reactor=self.runtime.reactor, clock=self.runtime.reactor, entropy=self.runtime.entropy
        )

    @property
    def scene(self) -> Scene:
        """What it has, once it was started."""
        return Scene(has_database=self.database.is_running)

    @property
    def all_config(self) -> Path:
        """The configuration of the three roles."""
        return self.directory / "all.toml"

    @property
    def client_config(self) -> Path:
        """The person's configuration."""
        return self.directory / PERSON / "client.toml"

    async def start(self) -> None:
        """Make and start everything; what was started before a failure, :meth:`stop` ends.

        Raises:
            SvcError: something refused.
        """
        await self._targets.start()
        await self.database.start()
        for attempt in range(_ATTEMPTS):
            try:
                await self._make(free_ports())
                break
            except ListenRefused:
                # Somebody took a port between our look and our use of it.
                if attempt == _ATTEMPTS - 1:
                    raise
                await self._stop_process()
                self._discard()
        process = self._process
        assert process is not None
        await process.startService()
        await until(self.runtime.reactor, _START_SECS, lambda: process.readiness.ready, "svc all")
        await self._join()

    async def stop(self) -> None:
        """End everything, the person's side first; nothing of it is left but what is kept."""
        if self._client is not None:
            await end(self._client)
        await self._stop_process()
        await self._targets.stop()
        await self.database.stop()
        if self.kept is None:
            self._discard()

    async def _make(self, ports: DemoPorts) -> None:
        if self.kept is not None:
            self.directory = self.kept
        else:
            self._temporary = DemoDirectory.made()
            self.directory = self._temporary.path
        self.ca_pin = await self.found(self.directory, ports, self._served(), self._furnish)
        settings = load_settings(str(self.all_config), "all", {})
        process: Any = make_process(self.runtime, settings, stopped_by=self.stopped_by)
        self._process = process
        process.privilegedStartService()

    def _served(self) -> list[DemoTarget]:
        targets, database = self._targets, self.database
        return [
            DemoTarget(one, database.address, database.table)
            if one is DATABASE
            else DemoTarget(one, targets.addresses[one.id], targets.tables.get(one.id, {}))
            for one in self.scene.resources
        ]

    async def _furnish(self, asked: Asked) -> None:
        """What the operator of a gateway types, in the same words to the same socket."""
        for one in self.scene.resources:
            request = pb.AddResourceRequest(
                id=one.id, kind=one.kind, node=CONNECTOR, labels={"port": str(one.port)}
            )
            await asked("AddResource", request, pb.AddResourceResponse)
        await asked("SetPolicy", pb.SetPolicyRequest(text=self.scene.policy), pb.SetPolicyResponse)
        person = pb.AddPersonRequest(name=PERSON, groups=[GROUP], create_groups=True)
        answer: pb.TokenResponse = await asked("AddPerson", person, pb.TokenResponse)
        self._token = answer.token

    async def _join(self) -> None:
        """What the person types: ``svc join``, ``svc up``."""
        settings = load_settings(str(self.all_config), "all", {})
        place = prepare(self.client_config.parent)
        proxies: tuple[Address, ...] = settings.endpoints.proxy
        token = parse_token(self._token)
        await take_identity(self.runtime, place, proxies, None, self.ca_pin, token, _quiet)
        client: Any = make_client(self.runtime, client_settings(str(self.client_config), {}))
        client.privilegedStartService()
        self._client = client
        await client.startService()

    async def _stop_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await end(process)

    def _discard(self) -> None:
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.remove()


def free_ports() -> DemoPorts:
    """Two loopback ports that nobody listens on at this moment."""
    with ExitStack() as held:
        numbers = []
        for _ in range(2):
            one = held.enter_context(socket.socket())
            one.bind((LOOPBACK, 0))
            numbers.append(one.getsockname()[1])
    return DemoPorts(*numbers)
