"""Creates the cluster of ``svc all``: its own Proxy and Connector join before the first start.

They join as every node does, by one-use tokens through TLS to an Authority
that runs for this moment on a loopback port of the system's choice; so the
registry and the audit log tell how they came to be, and nothing here writes
into either.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from attrs import evolve
from google.protobuf.message import Message
from twisted.logger import Logger

from svc.compose.listeners.unbind import end
from svc.compose.process import Process, make_process
from svc.config import Address, RoleSettings, load_settings
from svc.config.values import StoreUrl
from svc.errors import SvcError
from svc.join.enroll import join_node
from svc.model.cluster.account import CODE_FILE
from svc.model.principal import Role
from svc.pki.identity_store import IdentityStore
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.runtime import durable
from svc.runtime.context import Runtime
from svc.runtime.services import bounded
from svc.setup.making import staged, write
from svc.setup.plan import (
    ALL,
    AUTHORITY,
    CONNECTOR,
    CONNECTOR_NAME,
    LOOPBACK,
    PROXY,
    PROXY_NAME,
    InitPlan,
)

Ask = Callable[[Path, str, Message, type[Any]], Awaitable[Any]]
"""``ask(directory, method, request, response_type)``: the control socket in that directory."""

Furnish = Callable[[Callable[[str, Message, type[Any]], Awaitable[Any]]], Awaitable[None]]
"""Given a way to ask the Authority, puts into the cluster what it is to begin with."""

_JOIN_SECS = 30.0

_log = Logger(namespace="svc")


async def found(runtime: Runtime, plan: InitPlan, ask: Ask, furnish: Furnish) -> str:
    """Make all of a plan for ``svc all``; the cluster's pin.

    Raises:
        SvcError: nothing was made.
    """
    plan.check()
    with staged(plan, runtime.entropy) as stage:
        ca_pin = write(plan, stage, runtime.now, runtime.entropy)
        await _begin(runtime, plan, stage.path, ca_pin, ask, furnish)
    return ca_pin


def _given_up(refusal: SvcError) -> None:
    # What is asked of the role next fails, and ends the founding with that.
    _log.error("a role gave up while it was being set up", reason=refusal.reason, text=refusal.text)


async def _begin(
    runtime: Runtime, plan: InitPlan, stage: Path, ca_pin: str, ask: Ask, furnish: Furnish
) -> None:
    settings = _for_now(load_settings(str(stage / "all.toml"), ALL, {}), stage)
    process: Any = make_process(runtime, settings, stopped_by=_given_up)
    try:
        process.privilegedStartService()
        await process.startService()
        await _furnish(runtime, plan, stage, settings, process, ca_pin, ask, furnish)
    finally:
        await end(process)
    # Its hour is to begin when the gateway does, which makes another.
    (stage / "state" / AUTHORITY / CODE_FILE).unlink(missing_ok=True)


async def _furnish(
    runtime: Runtime,
    plan: InitPlan,
    stage: Path,
    settings: RoleSettings,
    process: Process,
    ca_pin: str,
    ask: Ask,
    furnish: Furnish,
) -> None:
    state = Path(settings.state_dir)

    async def asked(method: str, request: Message, response: type[Any]) -> Any:
        return await ask(state, method, request, response)

    port: int = getattr(process.listeners["join"].bound, "port", 0)
    for role, name in ((PROXY, PROXY_NAME), (CONNECTOR, CONNECTOR_NAME)):
        names = plan.public_names if role == PROXY else ()
        request = pb.AddNodeRequest(role=role, name=name, public_names=names)
        answer: pb.TokenResponse = await asked("AddNode", request, pb.TokenResponse)
        await _join(runtime, settings, stage, role, answer.token, ca_pin, port)
    await furnish(asked)


async def _join(
    runtime: Runtime,
    settings: RoleSettings,
    stage: Path,
    role: str,
    token: str,
    ca_pin: str,
    port: int,
) -> None:
    state = stage / "state" / role
    file = state / "join.token"
    durable.write_new(file, token.encode("ascii"))
    try:
        join = evolve(
            settings.join,
            token_file=str(file),
            ca_pin=ca_pin,
            authority=Address(LOOPBACK, port),
        )
        joining = join_node(runtime, evolve(settings, join=join), IdentityStore(state), Role(role))
        await bounded(runtime.reactor, _JOIN_SECS, joining, "joining")
    finally:
        file.unlink()


def _for_now(settings: RoleSettings, stage: Path) -> RoleSettings:
    """The Authority alone, in the directory that is not yet in its place."""
    state = stage / "state" / AUTHORITY
    endpoints = evolve(
        settings.endpoints,
        control_listen=None,
        join_listen=Address(LOOPBACK, 0),
        renewal_listen=None,
        admin_listen=None,
    )
    return evolve(
        settings,
        role=AUTHORITY,
        state_dir=str(state),
        store_url=StoreUrl("sqlite", f"/{state}/store.db".replace("//", "/")),
        endpoints=endpoints,
        page=evolve(settings.page, listen=None),
        telemetry=evolve(settings.telemetry, metrics_listen=None, otel_endpoint=None),
    )
