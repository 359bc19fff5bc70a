"""The first five minutes: ``svc init`` makes a gateway, ``svc demo`` shows one."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svc.cli import Globals
from svc.cli.control import ask, run
from svc.cli.forms import WORD
from svc.cli.output import hint, say
from svc.errors import SvcError, UsageError

if TYPE_CHECKING:
    from svc.compose.runtime import Runtime
    from svc.setup.plan import Plan

_ROLES = ("authority", "proxy", "connector", "all")
_QUIET = "warn"


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--all", "is_one", is_flag=True, help="One process: the same as --for all.")
@click.option(
    "--for",
    "roles",
    multiple=True,
    type=click.Choice(_ROLES),
    help="Whose configuration to write; may be repeated.  [default: the three roles]",
)
@click.option("--cluster", default="gate.internal", show_default=True, type=WORD, metavar="NAME",
              help="The cluster's DNS name; it need not resolve.")
@click.option("--public-name", "names", multiple=True, type=WORD, metavar="N",
              help="What people call the Proxy; may be repeated.  [default: localhost]")
@click.option("--public-port", default=7400, show_default=True, type=click.IntRange(1, 65535))
@click.option("--host", default="127.0.0.1", show_default=True, type=WORD, metavar="ADDR",
              help="Where Proxies reach the Authority.")
@click.option("--resource", "resources", multiple=True, type=WORD, metavar="ID=KIND:HOST:PORT",
              help="Served by the Connector.  [default: ssh-here=ssh:127.0.0.1:22]")
@click.option("--ca-pin", default="", metavar="PIN",
              help="For nodes of a cluster whose Authority is elsewhere.")
@click.option("--root-key-to", type=click.Path(path_type=Path), metavar="PATH",
              help="Write the root's private key there and keep no copy.")
@click.pass_obj
def init(
    globals_: Globals,
    directory: Path,
    is_one: bool,
    roles: tuple[str, ...],
    cluster: str,
    names: tuple[str, ...],
    public_port: int,
    host: str,
    resources: tuple[str, ...],
    ca_pin: str,
    root_key_to: Path | None,
) -> None:
    """Write configurations and keys of a gateway into DIR, and say what to type next."""
    from svc.setup.commands import Next
    from svc.setup.plan import ALL, SEPARATE, Plan, Ports, read_served

    if is_one and roles:
        raise UsageError("--all: is the same as --for all; give one of them")
    wanted = (ALL,) if is_one else tuple(dict.fromkeys(roles)) or SEPARATE
    served = resources or (("ssh-here=ssh:127.0.0.1:22",) if set(wanted) - {"proxy"} else ())
    plan = Plan(
        Path(os.path.normpath(directory.absolute())),
        cluster,
        wanted,
        host,
        names or ("localhost", "127.0.0.1"),
        Ports(public=public_port),
        tuple(read_served(text) for text in served),
        ca_pin.lower().removeprefix("sha256:"),
        None if root_key_to is None else root_key_to.absolute(),
    )
    pin = _made(globals_, plan)
    hint(_written(plan, pin))
    say(Next(plan, program(), pin).lines())


def _made(globals_: Globals, plan: Plan) -> str:
    """Make it; the cluster's pin."""
    from svc.setup.making import make

    if not plan.is_one:
        return make(plan, time.time, os.urandom)
    from svc.setup.founding import found
    from svc.setup.furnishing import furnish

    _log_warnings(globals_)
    return run(
        lambda reactor: found(
            _runtime(globals_, reactor), plan, _asking(reactor), lambda asked: furnish(plan, asked)
        )
    )


def _written(plan: Plan, pin: str) -> Iterable[str]:
    from svc.setup.plan import AUTHORITY

    yield f"made {plan.directory}: cluster {plan.cluster}, ca_pin {pin}"
    if plan.makes_keys:
        kept = plan.root_key or plan.state[AUTHORITY] / "keys" / "root.key"
        yield f"the root's private key is {kept}"
        if plan.root_key is None:
            yield "  (it can go offline: move it away; nothing reads it while the gateway runs)"
    yield ""


def program() -> str:
    """How this ``svc`` is called from a shell: its bare name only where that finds it."""
    called = Path(sys.argv[0])
    found = shutil.which("svc")
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m svc"
    if found is not None and called.exists() and os.path.samefile(found, called):
        return "svc"
    return shlex.quote(str(called.absolute()))


def _asking(reactor: Any) -> Any:
    """How rooms below ask an Authority over its control socket."""
    return lambda directory, method, request, response: ask(
        reactor, directory, method, request, response
    )


def _runtime(globals_: Globals, reactor: Any) -> Runtime:
    from svc.compose.runtime import Runtime

    return Runtime(reactor, time.time, os.urandom, globals_.environ)


def _log_warnings(globals_: Globals) -> None:
    """Begin logging: warnings, where RUST_LOG does not say otherwise."""
    from svc.telemetry.filter import parse_filter
    from svc.telemetry.logs import begin_logging

    lines = begin_logging(globals_.environ)
    try:
        log_filter = parse_filter(globals_.environ.get("RUST_LOG") or _QUIET)
    except SvcError:
        lines.settle(parse_filter(_QUIET), None)
        raise
    lines.settle(log_filter, None)
