"""Whether somebody serves each resource of the catalog now, by the tunnels that are open."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from svc.authority.registry.left_open import OPEN_TUNNEL, registered_at
from svc.interfaces.store import ITransaction
from svc.model.cluster.health import STALE_SECS, NodeHealth
from svc.model.cluster.lease import LeaderLease
from svc.model.cluster.node import Node, NodeState
from svc.model.cluster.registration import PERMITS_NONE
from svc.model.cluster.resource import Resource, Undeclared
from svc.model.cluster.unserved import (
    NOT_CONNECTED,
    NOT_DECLARED,
    REGISTRATION_REFUSED,
    problem_text,
)
from svc.model.doctor import Finding, info, ok, warn
from svc.model.principal import Role
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import CheckContext, NotChecked
from svc.ops.doctor.probes import is_running

MOST_TUNNELS = 5_000
_NAMED = 5


@frozen
class _Seen:
    """What one look at the store gives."""

    lease: LeaderLease
    nodes: Mapping[str, Node]
    health: Mapping[str, NodeHealth]
    catalog: Sequence[Resource]
    undeclared: Sequence[Undeclared]
    tunnels: Sequence[Mapping[str, Any]]

    def seen_at(self, node: Node) -> float:
        """When the node was here last."""
        told = self.health.get(node.id)
        return max(node.last_seen or 0.0, 0.0 if told is None else told.at)


@define
class _Tunnels:
    """The open tunnels: what each Connector registered, and through which Proxies."""

    resources: dict[str, set[str]] = field(factory=dict)
    proxies: dict[str, set[str]] = field(factory=dict)

    def add(self, details: Mapping[str, Any]) -> None:
        """One tunnel more, as the record of its registration tells of it."""
        connector, proxy = str(details["connector_id"]), str(details["proxy_id"])
        self.resources.setdefault(connector, set()).update(map(str, details["resources"]))
        self.proxies.setdefault(connector, set()).add(proxy)


def _served(context: CheckContext) -> Iterator[Finding]:
    """Nothing is said while nobody leads: then nobody serves anything."""
    stored = context.store.look("doctor served", _look)
    is_away = is_running(context.base_state) is False
    if stored.lease.is_free or (is_away and len(_authorities(stored)) == 1):
        yield ok("no Authority leads now, so no Connector is registered")
        return
    tunnels = _Tunnels()
    try:
        for one in stored.tunnels:
            tunnels.add(one)
    except (LookupError, TypeError):
        raise NotChecked("records of registrations cannot be read; see audit.log") from None
    yield from _unserved(context, stored, tunnels)
    yield from _partly(context, stored, tunnels)
    yield ok(f"resources that a Connector serves: {sum(map(len, tunnels.resources.values()))}")


def _look(tx: ITransaction) -> _Seen:
    seqs = filter(None, map(registered_at, tx.schema.facts(OPEN_TUNNEL, MOST_TUNNELS)))
    rows = (row for seq in seqs for row in tx.audit.rows(seq, 1))
    return _Seen(
        lease=tx.lease.held(),
        nodes={one.id: one for one in tx.nodes.all()},
        health=tx.health.all(),
        catalog=tx.catalog.all(),
        undeclared=tx.catalog.undeclared(),
        tunnels=[json.loads(row.canonical).get("details", {}) for row in rows],
    )


def _authorities(stored: _Seen) -> list[Node]:
    return [
        one
        for one in stored.nodes.values()
        if one.role == Role.AUTHORITY.value and one.state is NodeState.ACTIVE
    ]


def _unserved(context: CheckContext, stored: _Seen, tunnels: _Tunnels) -> Iterator[Finding]:
    """What policy.catalog warns of already is left out."""
    found: dict[tuple[str, str], list[str]] = {}
    offering = {one.node_id for one in stored.undeclared}
    offered = {(one.id, one.node_id) for one in stored.undeclared}
    for one in stored.catalog:
        node = stored.nodes.get(one.assigned_to or "")
        if node is None or node.state is not NodeState.ACTIVE or one.lacks_mode:
            continue
        there = tunnels.resources.get(node.id)
        if there is None:
            if context.is_within and context.at - stored.seen_at(node) <= STALE_SECS:
                continue  # it may be on its way back, as after a restart of this Authority
            word = REGISTRATION_REFUSED if node.id in offering else NOT_CONNECTED
            found.setdefault((word, node.name), []).append(one.id)
        elif one.id not in there and (one.id, node.id) not in offered:
            found.setdefault((NOT_DECLARED, node.name), []).append(one.id)
    for (word, name), ids in found.items():
        text = problem_text(word, node=name, reason=PERMITS_NONE)
        what, _, hint = text.partition(": ")
        yield warn(f"nobody serves {_shown(ids)}: {what}", hint)


def _partly(context: CheckContext, stored: _Seen, tunnels: _Tunnels) -> Iterator[Finding]:
    """Connectors of some Proxies only; whether Proxies relay sessions is not in the store."""
    here = {
        one.id: one.name
        for one in stored.nodes.values()
        if one.role == Role.PROXY.value
        and one.state is NodeState.ACTIVE
        and context.at - stored.seen_at(one) <= STALE_SECS
    }
    for node_id, through in sorted(tunnels.proxies.items()):
        missing = sorted(name for proxy_id, name in here.items() if proxy_id not in through)
        node = stored.nodes.get(node_id)
        if missing and node is not None:
            yield info(
                f"the Connector {node.name} is not connected to {_shown(missing)}: whoever uses "
                "that Proxy reaches its resources only if the Proxies relay sessions",
                "list every Proxy in its endpoints.proxy, and raise "
                "connector.proxy_connection_count",
            )


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


CHECKS = (Check("policy.served", ("authority",), _served, needs_state=True),)
