"""A program: many Connectors in one process, each joined by a token of its own.

Each is what a Connector's process composes, but for telemetry, and serves one
resource of the catalog.  ``ASKED`` is JSON: ``cluster``, ``pin``, ``proxy``,
the Authority's control ``socket`` and a ``directory``, in which they find
themselves again at the next start.  Each number on stdin brings up so many
more; a line on stdout says that they have joined.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

from attrs import define, evolve, field
from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.task import deferLater

from svc.compose.connector import make_connector
from svc.compose.health import LastChecks
from svc.compose.process_parts import ProcessParts
from svc.compose.reload.keys import ReloadableKeys
from svc.config import RoleSettings, read_settings
from svc.errors import SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.pki.identity_store import IdentityStore
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.rpc.client.channel import dial
from svc.runtime.context import Runtime
from svc.runtime.services import bounded
from svc.runtime.state_directory import StateDirectory
from svc.telemetry.metrics import Metrics
from svc.testing.gateway.settings import SHORT, numbers_of, toml

_WAIT_SECS = 30.0
_LOOK_SECS = 0.02
_AT_ONCE = 8
_ADD_NODE, _ADD_RESOURCE = "/gate.v1.Admin/AddNode", "/gate.v1.Admin/AddResource"

reactor: Any = installed


@define(eq=False)
class Many:
    """See the module."""

    asked: dict[str, Any]
    runtime: Runtime = field(init=False)
    _settings: RoleSettings = field(init=False)
    _roles: list[Any] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.runtime = Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ={})

        table = {
            "cluster": self.asked["cluster"],
            "state_dir": self.asked["directory"],
            "endpoints.proxy": [self.asked["proxy"]],
            "join.token_file": "/unused",
            "join.ca_pin": self.asked["pin"],
            "connector.resources": [{"id": "each", "kind": "tcp", "address": "127.0.0.1:9"}],
            **numbers_of("connector", SHORT),
        }
        self._settings = read_settings(toml(table), "connector", {}, "connectors")

    async def add(self, count: int) -> None:
        """Bring up so many more, a few at a time."""
        endpoint = UNIXClientEndpoint(reactor, self.asked["socket"])
        admin = await dial(endpoint, reactor, plaintext=True)
        numbers = iter(range(len(self._roles), len(self._roles) + count))

        async def one_after_another() -> None:
            for number in numbers:
                await self._one(admin, f"many{number}")

        try:
            turns = [Deferred.fromCoroutine(one_after_another()) for _ in range(_AT_ONCE)]
            await gatherResults(turns, consumeErrors=True)
        finally:
            await admin.close()
        print(count, flush=True)

    async def _one(self, admin: IRpcChannel, name: str) -> None:
        state = Path(self.asked["directory"]) / name
        is_new = not state.exists()
        if is_new:
            await self._admit(admin, name, state)
        join = evolve(self._settings.join, token_file=str(state / "join.token"))
        [table] = self._settings.connector.resources
        connector = evolve(self._settings.connector, resources=(evolve(table, id=name),))
        settings = evolve(self._settings, state_dir=str(state), join=join, connector=connector)
        role = make_connector(
            self.runtime,
            settings,
            Metrics(("connector",), ""),
            StateDirectory(state),
            _refused,
            ProcessParts(checks=LastChecks(), reloads=ReloadableKeys(settings)),
        )
        self._roles.append(role)
        await role.startService()
        if is_new:
            await bounded(reactor, _WAIT_SECS, _joined(IdentityStore(state)), name)
            offered = pb.AddResourceRequest(id=name, kind="tcp", node=name)
            await admin.unary(_ADD_RESOURCE, offered, pb.AddResourceResponse, timeout=_WAIT_SECS)

    async def _admit(self, admin: IRpcChannel, name: str, state: Path) -> None:
        """Make its directory, with a token in it."""
        state.mkdir(mode=0o700, parents=True)
        token = state / "join.token"
        token.touch(mode=0o600)
        request = pb.AddNodeRequest(role="connector", name=name)
        answer = await admin.unary(_ADD_NODE, request, pb.TokenResponse, timeout=_WAIT_SECS)
        token.write_text(answer.token, "utf-8")


async def _joined(store: IdentityStore) -> None:
    while not store.exists:
        await deferLater(reactor, _LOOK_SECS)


def _refused(refusal: SvcError) -> None:
    raise refusal


def main() -> None:
    """Be the program."""
    reactor.seconds = time.monotonic
    many = Many(json.loads(sys.argv[1]))

    def begin(count: int) -> None:
        Deferred.fromCoroutine(many.add(count)).addErrback(broken)

    def broken(failure: Any) -> None:
        failure.printTraceback(file=sys.stderr)
        reactor.stop()

    def read() -> None:
        for line in sys.stdin:
            reactor.callFromThread(begin, int(line))
        reactor.callFromThread(reactor.stop)

    Thread(target=read, daemon=True).start()
    reactor.run()


if __name__ == "__main__":
    main()
