"""The first five minutes: ``svc init`` makes a gateway, ``svc demo`` shows one."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svc.cli import Globals
from svc.cli.cancellation import CancellableRun
from svc.cli.control import ask
from svc.cli.forms import WORD
from svc.cli.output import hint, json_option, print_lines, print_result
from svc.errors import SvcError, UsageError

if TYPE_CHECKING:
    from svc.demo.show import Show
    from svc.runtime.context import Runtime
    from svc.setup.plan import InitPlan

_ROLES = ("authority", "proxy", "connector", "all")
_QUIET = "warn"
_DEMO = (
    # The three roles start at once and ask for each other a moment too early; and a
    # visitor who hangs up is an error to Conch.  What really fails, the demo says itself.
    f"{_QUIET},svc_proxy=error,svc_tunnel=error,svc_connector=error,svc_client=error,"
    "twisted.conch=off"
)


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--all", "is_one", is_flag=True, help="Configure one process with all roles; same as --for all."
)
@click.option(
    "--for",
    "roles",
    multiple=True,
    type=click.Choice(_ROLES),
    help="The role to configure; may be repeated.  [default: all three roles]",
)
@click.option(
    "--cluster",
    default="gate.internal",
    show_default=True,
    type=WORD,
    metavar="NAME",
    help="The cluster's name, in the form of a DNS name; it need not resolve.",
)
@click.option(
    "--public-name",
    "names",
    multiple=True,
    type=WORD,
    metavar="N",
    help="A DNS name or IP address under which people reach the Proxy; may be repeated.  [default: "
    "localhost]",
)
@click.option(
    "--public-port",
    default=7400,
    show_default=True,
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="The port at which people and Connectors reach the Proxy.",
)
@click.option(
    "--authority-port",
    default=7401,
    show_default=True,
    type=click.IntRange(1, 65531),
    metavar="PORT",
    help="The first of the Authority's four consecutive ports; the browser page has the fifth.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    type=WORD,
    metavar="ADDR",
    help="The address at which Proxies reach the Authority.",
)
@click.option(
    "--resource",
    "resources",
    multiple=True,
    type=WORD,
    metavar="ID=KIND:HOST:PORT",
    help="A resource for the Connector to serve; may be repeated.  [default: "
    "ssh-here=ssh:127.0.0.1:22]",
)
@click.option(
    "--page", "has_page", is_flag=True, help="Serve the browser page, as the resource svc-page."
)
@click.option(
    "--ca-pin",
    default="",
    metavar="PIN",
    help="The pin of an existing cluster, to configure further nodes for it.",
)
@click.option(
    "--root-key-to",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write the root's private key to PATH and keep no copy in DIR.",
)
@click.option(
    "--issuing-ca-days",
    "ca_days",
    type=click.IntRange(1, 3650),
    metavar="DAYS",
    help="Lifetime of the issuing CAs.  [default: 90]",
)
@json_option
@click.pass_obj
def init(
    globals_: Globals,
    directory: Path,
    is_one: bool,
    roles: tuple[str, ...],
    cluster: str,
    names: tuple[str, ...],
    public_port: int,
    authority_port: int,
    host: str,
    resources: tuple[str, ...],
    has_page: bool,
    ca_pin: str,
    root_key_to: Path | None,
    ca_days: int | None,
    as_json: bool,
) -> None:
    """Write the configuration and keys of a gateway to DIR, and print the next steps.

    Example:
        svc init my-gateway --all --resource web=tcp:127.0.0.1:8080
        svc init my-gateway --public-name gate.example.org
    """
    from svc.setup.commands import Next
    from svc.setup.plan import ALL, ISSUING_CA_DAYS, SEPARATE, InitPlan, InitPorts, read_served

    if is_one and roles:
        raise UsageError("--all: means the same as --for all; give only one of them")
    wanted = (ALL,) if is_one else tuple(dict.fromkeys(roles)) or SEPARATE
    served = resources or (("ssh-here=ssh:127.0.0.1:22",) if set(wanted) - {"proxy"} else ())
    plan = InitPlan(
        directory=Path(os.path.normpath(directory.absolute())),
        cluster=cluster,
        roles=wanted,
        host=host,
        public_names=names or ("localhost", "127.0.0.1"),
        ports=InitPorts(
            public=public_port,
            control=authority_port,
            join=authority_port + 1,
            renewal=authority_port + 2,
            admin=authority_port + 3,
            page=authority_port + 4,
        ),
        served=tuple(read_served(text) for text in served),
        ca_pin=ca_pin.lower().removeprefix("sha256:"),
        root_key=None if root_key_to is None else root_key_to.absolute(),
        numbers={} if ca_days is None else {ISSUING_CA_DAYS: ca_days},
        has_page=has_page,
    )
    pin = _made(globals_, plan)
    lines = list(Next(plan, program(), pin).lines())
    if not as_json:
        hint(_written(plan, pin))
    result = {
        "directory": str(plan.directory),
        "cluster": plan.cluster,
        "ca_pin": pin,
        "root_key": str(root_key_of(plan)) if plan.makes_keys else None,
        "commands": [line for line in lines if line and not line.startswith("#")],
    }
    print_result(as_json, result, lines)


@click.command()
@click.option(
    "--once",
    is_flag=True,
    help="Run the demo once and exit, with status 0 if every step succeeded.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the demo's state in DIR, which must be new or empty.",
)
@click.pass_obj
def demo(globals_: Globals, once: bool, keep: Path | None) -> int:
    """Demonstrate a complete gateway in this process, on loopback, with its own state."""
    from svc.demo.show import Show

    _log_warnings(globals_, _DEMO)
    kept = None if keep is None else Path(os.path.normpath(keep.absolute()))

    shows: list[Show] = []

    async def show(reactor: Any) -> None:
        runtime = _runtime(globals_, reactor)
        shows.append(
            Show(
                runtime=runtime,
                kept=kept,
                found=_founding(runtime),
                write_line=_write_line,
                program=program(),
            )
        )
        await shows[0].run(once=once)

    try:
        CancellableRun(show).run()
    except click.Abort:
        if not (shows and shows[0].is_finished):
            raise
    return 0


def _write_line(line: str) -> None:
    """One line, at once; without the arrow where the terminal has none."""
    try:
        line.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        line = line.replace("\N{RIGHTWARDS ARROW}", "->")
    print_lines([line])
    sys.stdout.flush()


def _founding(runtime: Runtime) -> Any:
    """Makes the demo's cluster as ``svc init --all`` does."""
    from svc.demo.scene import CLUSTER
    from svc.setup.founding import found
    from svc.setup.plan import ALL, InitPlan, InitPorts, PlannedResource

    async def made(directory: Path, ports: Any, targets: list[Any], furnish: Any) -> str:
        served = tuple(
            PlannedResource(one.resource.id, one.resource.kind, one.address, table=one.table)
            for one in targets
        )
        plan = InitPlan(
            directory,
            CLUSTER,
            (ALL,),
            ports=InitPorts(public=ports.public, control=ports.control, join=0, renewal=0, admin=0),
            served=served,
            numbers={
                "audit.head_after_secs": 0.25,
                "limits.drain_secs": 1,
                "tunnel.backoff_first_secs": 0.1,
            },
        )
        return await found(runtime, plan, _asking(runtime.reactor), furnish)

    return made


def _made(globals_: Globals, plan: InitPlan) -> str:
    """Make it; the cluster's pin."""
    from svc.setup.making import make

    if not plan.is_one:
        return make(plan, time.time, os.urandom)
    from svc.setup.founding import found
    from svc.setup.furnishing import furnish

    _log_warnings(globals_)

    def founding(reactor: Any) -> Coroutine[Any, Any, str]:
        runtime = _runtime(globals_, reactor)
        return found(runtime, plan, _asking(reactor), lambda asked: furnish(plan, asked))

    pin: str = CancellableRun(founding).run()
    return pin


def root_key_of(plan: InitPlan) -> Path:
    """Where the root's private key was put."""
    from svc.setup.plan import AUTHORITY

    return plan.root_key or plan.state[AUTHORITY] / "keys" / "root.key"


def _written(plan: InitPlan, pin: str) -> Iterable[str]:
    from svc.model.cluster.account import CODE_FILE
    from svc.setup.plan import AUTHORITY

    yield f"made {plan.directory}: cluster {plan.cluster}, ca_pin {pin}"
    if plan.makes_keys:
        yield f"the root's private key is {root_key_of(plan)}"
        if plan.root_key is None:
            yield "  (move it offline: the running gateway does not read it)"
        yield "at its first start, the gateway writes the first administrator's one-time code to"
        yield f"  {plan.state[AUTHORITY] / CODE_FILE}"
    yield ""


def program() -> str:
    """How this ``svc`` is called from a shell: its bare name only where that finds it."""
    called = Path(sys.argv[0])
    found = shutil.which("svc")
    if called.name == "__main__.py":
        # Only in a bare checkout is svc found by the working directory, which -P leaves out.
        safe = "" if called.parent.parent == Path.cwd() else "-P "
        return f"{shlex.quote(sys.executable)} {safe}-m svc"
    if found is not None and called.exists() and os.path.samefile(found, called):
        return "svc"
    return shlex.quote(str(called.absolute()))


def _asking(reactor: Any) -> Any:
    """How rooms below ask an Authority over its control socket."""
    return lambda directory, method, request, response: ask(
        reactor, directory, method, request, response
    )


def _runtime(globals_: Globals, reactor: Any) -> Runtime:
    from svc.runtime.context import Runtime

    return Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ=globals_.environ)


def _log_warnings(globals_: Globals, otherwise: str = _QUIET) -> None:
    """Begin logging: warnings or so, where RUST_LOG does not say otherwise."""
    from svc.telemetry.filter import parse_filter
    from svc.telemetry.logs import begin_logging

    lines = begin_logging(globals_.environ)
    try:
        log_filter = parse_filter(globals_.environ.get("RUST_LOG") or otherwise)
    except SvcError:
        lines.settle(parse_filter(otherwise), None)
        raise
    lines.settle(log_filter, None)
