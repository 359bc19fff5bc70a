"""``svc client-net``: the network helper, which a unit of the system runs."""

from __future__ import annotations

import click

from svc.cli import Globals
from svc.cli.roles import Running, refused
from svc.errors import SvcError


@click.command("client-net")
@click.pass_obj
def client_net(globals_: Globals) -> int:
    """Let residents listen below port 1024; the unit svc-client-net.service runs this.

    It binds sockets that `svc up` hands to it, each to an address of the user who asks.  It reads
    no configuration.  Without a service manager, give it two directories of its own in
    RUNTIME_DIRECTORY and STATE_DIRECTORY, and CAP_NET_BIND_SERVICE.
    """
    from svc.cli.reactor import process_reactor
    from svc.compose.client_net import make_client_net
    from svc.compose.signals import ignore_hangups
    from svc.telemetry.filter import parse_filter
    from svc.telemetry.logs import begin_logging

    reactor = process_reactor()
    lines = begin_logging(globals_.environ)
    ignore_hangups(reactor, "svc-client-net reads no configuration")
    log_filter = parse_filter(None)
    try:
        log_filter = parse_filter(globals_.environ.get("RUST_LOG"))
        lines.settle(log_filter, None)
        helper = make_client_net(reactor, globals_.environ)
    except SvcError as refusal:
        lines.settle(log_filter, None)
        return refused(lines, refusal)
    return Running(reactor, lines).run(helper)
