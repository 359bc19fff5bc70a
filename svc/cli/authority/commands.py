"""``svc authority``: bare it runs the role; with a further word it is the operator's hand.

Here is the tree only.  An older spelling is the very same command under
another name, shown by no help.
"""

from __future__ import annotations

from copy import copy
from pathlib import Path

import click

from svc.cli.authority.audit import audit
from svc.cli.authority.catalog import resources
from svc.cli.authority.changes.decide import activate_policy, approve_policy, reject_policy
from svc.cli.authority.changes.earlier import diff_policy, rollback_policy
from svc.cli.authority.changes.propose import propose_policy
from svc.cli.authority.changes.review import review_policy
from svc.cli.authority.epochs import epochs
from svc.cli.authority.identities import identities
from svc.cli.authority.keys import ca, keys
from svc.cli.authority.log.erase import erase
from svc.cli.authority.log.events import list_events
from svc.cli.authority.log.outbox import outbox
from svc.cli.authority.log.recordings import recordings
from svc.cli.authority.log.show import show_records
from svc.cli.authority.members.accounts import accounts
from svc.cli.authority.members.agents import agents
from svc.cli.authority.members.groups import groups
from svc.cli.authority.members.nodes import nodes
from svc.cli.authority.members.people import persons
from svc.cli.authority.members.tokens import tokens
from svc.cli.authority.members.users import users
from svc.cli.authority.policy import policy
from svc.cli.authority.replay import replay_policy
from svc.cli.authority.scopes import scopes
from svc.cli.authority.sessions import sessions
from svc.cli.authority.status import status
from svc.cli.authority.upkeep.backup import backup
from svc.cli.authority.upkeep.preflight import preflight
from svc.cli.authority.upkeep.state import state
from svc.cli.authority.upkeep.store import store
from svc.cli.groups import Group
from svc.cli.lane import OPTIONS, LaneOptions


@click.group(cls=Group, invoke_without_command=True)
@click.option(
    "--proxy",
    "proxies",
    metavar="HOST:PORT",
    multiple=True,
    help="Ask through this Proxy, as the person who signed in here; may be repeated.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Ask through a Proxy, as the person whose identity is in DIR (`svc login --dir`).",
)
@click.pass_context
def authority(context: click.Context, proxies: tuple[str, ...], directory: Path | None) -> int:
    """Run the Authority; with a command, administer the running one or its store.

    On the Authority's host, a command needs the Authority's configuration (--config) and uses
    its control socket.  From any other machine it goes through a Proxy, as the person who signed
    in there with `svc login`: with --proxy or --dir, with --config naming a client.toml, or
    without any of them.  The policy decides what the person may do.  Commands that need the
    Authority's files, such as its store, say so.

    Example:
        svc --config authority.toml authority          # run the role
        svc --config authority.toml authority status
        svc authority --dir ~/.svc/administrator status
    """
    context.meta[OPTIONS] = LaneOptions(proxies, directory)
    if context.invoked_subcommand is not None:
        return 0
    if proxies or directory is not None:
        raise click.UsageError("--proxy and --dir: are for commands; name one")
    from svc.cli.roles import run_role

    return run_role(context.obj, "authority")


audit.add_command(outbox)
audit.add_command(erase)
audit.add_command(show_records)
audit.add_command(list_events)
policy.add_command(replay_policy)
for _change in (
    propose_policy,
    review_policy,
    approve_policy,
    reject_policy,
    activate_policy,
    rollback_policy,
    diff_policy,
):
    policy.add_command(_change)
for _command in (
    status,
    preflight,
    nodes,
    persons,
    agents,
    groups,
    tokens,
    users,
    sessions,
    recordings,
    identities,
    accounts,
    resources,
    scopes,
    policy,
    audit,
    store,
    state,
    backup,
    ca,
    epochs,
    keys,
):
    authority.add_command(_command)

_OLDER = {
    "list-nodes": nodes.commands["list"],
    "list-resources": resources.commands["list"],
    "verify-audit": audit.commands["verify"],
    "migrate": store.commands["migrate"],
}

for _name, _same in _OLDER.items():
    _alias = copy(_same)
    _alias.name, _alias.hidden = _name, True
    authority.add_command(_alias)
