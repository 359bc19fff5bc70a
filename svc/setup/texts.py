"""The files that ``svc init`` writes, as texts; pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from svc.config.keys import KEYS
from svc.model.cluster.account import ADMINISTRATORS
from svc.policy.words import OPERATORS_POLICY
from svc.setup.plan import (
    ALL,
    AUTHORITY,
    CONNECTOR,
    GROUP,
    KINDS,
    LOOPBACK,
    PROXY,
    InitPlan,
    TableValue,
    is_address,
    is_local,
)
from svc.setup.plan import joined as at

NODE_LEAF_SECS = 30 * 86400
"""For ``svc all``, whose nodes are one machine with the keys: it may rest for that long."""

FIRST_POLICY = f"""\
// The policy of this cluster, in Cedar.  Change it, then activate it with
// `svc authority policy set`; the audit log records every change.

// Anyone who can use the Authority's control socket administers the cluster.
{OPERATORS_POLICY}
// So does the first administrator, who signs in with `svc login --first-administrator`.
@id("{ADMINISTRATORS}-administer")
permit (
  principal in Group::"{ADMINISTRATORS}",
  action in Action::"administer",
  resource is Cluster
);

// To let a group of your own do so too, from any machine, and only within an hour after the
// second factor (docs/how-to/operators.md), remove the slashes:
// @id("people-administer")
// permit (
//   principal in Group::"operators",
//   action in Action::"administer",
//   resource is Cluster
// )
// when {{ context has mfa_age_seconds && context.mfa_age_seconds < 3600 }};

// A person who may not view a resource learns nothing about it, not even that it exists.
@id("{GROUP}-view")
permit (
  principal in Group::"{GROUP}",
  action == Action::"view",
  resource
);

// Every way of using every resource.  Narrow it by naming actions
// and resources: Action::"sshConnect" with Server::"ssh-here", Action::"tcpConnect" with
// TcpService::"web".
@id("{GROUP}-use")
permit (
  principal in Group::"{GROUP}",
  action in Action::"use",
  resource
);
"""


def configurations(plan: InitPlan, ca_pin: str) -> dict[str, str]:
    """File names and their texts."""
    kinds = list(_kinds(plan))
    if plan.is_one:
        return {"all.toml": "\n".join([*_all(plan), *kinds])}
    made = {AUTHORITY: _authority, PROXY: _proxy, CONNECTOR: _connector}
    return {f"{role}.toml": "\n".join([*made[role](plan, ca_pin), *kinds]) for role in plan.roles}


def holder_configuration(plan: InitPlan) -> str:
    """The text of whoever holds the keys; the pin of what is made by it is not in it."""
    made = _all(plan) if plan.is_one else _authority(plan, "")
    return "\n".join([*made, *_kinds(plan)])


def _authority(plan: InitPlan, ca_pin: str) -> Iterator[str]:
    yield "# The Authority: decides, signs, records.  Only the Authority has the cluster's keys."
    yield from _top(plan, str(plan.state[AUTHORITY]))
    yield from _store(plan)
    yield ""
    yield "[endpoints]"
    yield "# The listeners for Proxies, for joining nodes, for renewals, and for administrators."
    yield from _listens(plan)
    yield ""
    yield from _page(plan)
    yield from _numbers(plan, AUTHORITY)


def _proxy(plan: InitPlan, ca_pin: str) -> Iterator[str]:
    yield "# The Proxy: the only role that people and Connectors connect to."
    yield from _top(plan, str(plan.state[PROXY]))
    yield ""
    yield "[endpoints]"
    yield from _public(plan)
    yield f"authority = [{_quoted(at(plan.host, plan.ports.control))}]"
    yield ""
    yield from _join(plan, PROXY, ca_pin)
    yield f"authority = {_quoted(at(plan.host, plan.ports.join))}"
    yield ""


def _connector(plan: InitPlan, ca_pin: str) -> Iterator[str]:
    yield "# The Connector runs near the targets that it serves, and dials out to the Proxy."
    yield from _top(plan, str(plan.state[CONNECTOR]))
    yield ""
    yield "[endpoints]"
    yield f"proxy = [{_quoted(plan.public)}]"
    yield ""
    yield from _join(plan, CONNECTOR, ca_pin)
    yield ""
    yield from _served(plan)


def _all(plan: InitPlan) -> Iterator[str]:
    yield "# Authority, Proxy and Connector in one process.  Each keeps its state in a directory"
    yield "# of its name inside state_dir, and speaks to the others over loopback TLS."
    yield from _top(plan, str(plan.directory / "state"))
    yield from _store(plan)
    yield ""
    yield "[endpoints]"
    yield from _public(plan)
    yield from _listens(plan)
    yield f"authority = [{_quoted(at(LOOPBACK, plan.ports.control))}]"
    yield f"proxy = [{_quoted(at(LOOPBACK, plan.ports.public))}]"
    yield ""
    yield from _page(plan)
    leaf = [
        "# How long this process may be stopped before its own nodes' certificates expire.",
        f"node_leaf_secs = {NODE_LEAF_SECS}",
    ]
    yield from _numbers(plan, ALL, {"identity": leaf})
    yield from _served(plan)


def _numbers(
    plan: InitPlan, role: str, first: Mapping[str, list[str]] = MappingProxyType({})
) -> Iterator[str]:
    """The tables of the numbers that a role reads, after what each holds *first*."""
    read = {key.path for key in KEYS if role in key.roles}
    tables = {table: list(lines) for table, lines in first.items()}
    for key, number in plan.numbers.items():
        table, _, name = key.partition(".")
        if key in read:
            tables.setdefault(table, []).append(f"{name} = {number}")
    for table, lines in tables.items():
        yield from (f"[{table}]", *lines, "")


def _top(plan: InitPlan, state: str) -> Iterator[str]:
    yield ""
    yield f"cluster = {_quoted(plan.cluster)}"
    yield f"state_dir = {_quoted(state)}"


def _store(plan: InitPlan) -> Iterator[str]:
    yield f"store_url = {_quoted(f'sqlite://{plan.state[AUTHORITY]}/store.db')}"


def _listens(plan: InitPlan) -> Iterator[str]:
    if plan.is_one:
        host = LOOPBACK
    else:
        host = plan.host if is_address(plan.host) else _everywhere(plan.host)
    for name in ("control", "join", "renewal", "admin"):
        yield f"{name}_listen = {_quoted(at(host, getattr(plan.ports, name)))}"


def _public(plan: InitPlan) -> Iterator[str]:
    first = plan.public_names[0]
    host = LOOPBACK if all(map(is_local, plan.public_names)) else _everywhere(first)
    yield f"public_listen = {_quoted(at(host, plan.ports.public))}"
    names = ", ".join(map(_quoted, plan.public_names))
    yield "# Its certificate contains the host names that its join token allows."
    yield f"public_names = [{names}]"


def _everywhere(host: str) -> str:
    if is_local(host):
        return LOOPBACK
    return "::" if ":" in host else "0.0.0.0"


def _page(plan: InitPlan) -> Iterator[str]:
    if plan.has_page:
        yield "[page]"
        yield "# The browser page, for the Connector of this machine alone."
        yield f"listen = {_quoted(at(LOOPBACK, plan.ports.page))}"
        yield ""


def _join(plan: InitPlan, role: str, ca_pin: str) -> Iterator[str]:
    yield "[join]"
    yield "# Read only while there is no identity in state_dir."
    yield f"token_file = {_quoted(str(plan.state[role] / 'join.token'))}"
    yield f"ca_pin = {_quoted(ca_pin)}"


def _kinds(plan: InitPlan) -> Iterator[str]:
    """The kinds in use, where what is served is of others than those that always are."""
    if plan.more_kinds:
        yield "[plugins]"
        yield f"kinds = [{', '.join(map(_quoted, (*KINDS, *plan.more_kinds)))}]"
        yield ""


def _served(plan: InitPlan) -> Iterator[str]:
    yield "# The resources that this Connector serves.  Only this file has their addresses."
    yield "# People can reach a resource once an operator has added its id to the catalog and"
    yield "# assigned it to this node."
    if not plan.resources:
        yield "#"
        for line in _table('"db1"', '"tcp"', '"10.0.0.5:5432"'):
            yield f"# {line}"
        yield ""
    for one in plan.resources:
        yield from _table(_quoted(one.id), _quoted(one.kind), _quoted(one.address))
        yield from (f"{key} = {_toml(value)}" for key, value in one.table.items())
        yield ""


def _table(id_: str, kind: str, address: str) -> Iterator[str]:
    yield "[[connector.resources]]"
    yield f"id = {id_}"
    yield f"kind = {kind}"
    yield f"address = {address}"


def _toml(value: TableValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    return f"{{ {', '.join(f'{key} = {_quoted(one)}' for key, one in value.items())} }}"


def _quoted(text: str) -> str:
    """A TOML basic string; what cannot be printed was refused before."""
    return json.dumps(text, ensure_ascii=False)
