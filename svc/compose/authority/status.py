"""What ``svc authority status`` shows, to be compared with what is expected of the cluster."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from attrs import frozen

from svc import __version__
from svc.authority.control import ControlService
from svc.authority.state.cluster import ClusterState
from svc.compose.authority.lifecycle import AuthorityRole
from svc.compose.authority.parts import Parts
from svc.compose.authority.shared import SharedServices
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import ChainRow
from svc.model.audit.outbox import QueueCounts
from svc.model.cluster.node import NodeState
from svc.model.distribution import NONE_YET, in_force, newest, pending
from svc.model.principal import Role
from svc.proto.gate.v1 import admin_pb2 as pb

MAX_NAMED = 100
"""Rows that the status names; it counts the rest."""


@frozen
class StoredStatus:
    """What one snapshot of the store says.

    Attributes:
        last: The last record of the log; None while the log is empty.
    """

    last: ChainRow | None
    open_sessions: int
    level: str
    migrations: int

    @classmethod
    def read(cls, tx: ITransaction) -> StoredStatus:
        """Read it."""
        applied, rows = tx.schema.applied(), tx.audit.tail(1)
        return cls(
            last=rows[-1] if rows else None,
            open_sessions=len(tx.sessions.open()),
            level=applied[-1].id if applied else "",
            migrations=len(applied),
        )


async def status_of(
    p: Parts,
    rooms: SharedServices,
    control: ControlService,
    role: AuthorityRole,
    queued: QueueCounts,
) -> pb.StatusResponse:
    """Everything as it is now."""
    stored = await p.store.read("status", StoredStatus.read)
    engine, unsigned, last = rooms.policy.engine, rooms.unsigned.now, stored.last
    event, at = ("", 0) if last is None else _event_of(last)
    return pb.StatusResponse(
        version=__version__,
        cluster=p.settings.cluster,
        authority_id=p.identity.principal.id,
        leader=p.leadership.leader,
        policy_version=0 if engine is None else engine.version,
        catalog_version=rooms.state_cache.state.revision,
        store_level=stored.level,
        store_count=stored.migrations,
        audit_seq=0 if last is None else last.seq,
        audit_head="" if last is None else last.hash.hex(),
        last_event=event,
        last_event_at=at,
        connectors=rooms.peers.registrations.connectors,
        serving=_serving(rooms),
        proxies=control.proxies,
        open_sessions=stored.open_sessions,
        not_ready=role.ready.missing,
        ca_pin=p.keys.ca_pin,
        state_seq=p.recorder.ledger.view.n,
        unsigned=[one.subject for one in unsigned[:MAX_NAMED]],
        unsigned_count=len(unsigned),
        queued_rows=queued.rows,
        held_rows=queued.held,
        **_distribution(rooms.state_cache.state),
    )


def _distribution(state: ClusterState) -> dict[str, Any]:
    """The root in force, the newest keys, what is prepared, and the pause."""
    root, prepared = in_force(state.roots.values()), pending(state.roots.values())
    material = newest(state.key_sets.values())
    return {
        "root_epoch": NONE_YET if root is None else root.epoch,
        "material_revision": 0 if material is None else material.revision,
        "prepared_root": NONE_YET if prepared is None else prepared.epoch,
        "rotation_paused": state.pause is not None,
    }


def _event_of(row: ChainRow) -> tuple[str, int]:
    """The event of a record and its time; a damaged record has none."""
    try:
        record = json.loads(row.canonical)
        return str(record["event"]), int(datetime.fromisoformat(record["time"]).timestamp())
    except (ValueError, KeyError, TypeError):
        return "", 0


def _serving(rooms: SharedServices) -> Iterator[pb.ServingRow]:
    """Each Connector that was not revoked, by name, with how much of its inventory it serves."""
    facts, registrations = rooms.state_cache.state, rooms.peers.registrations
    meant, served = Counter[str](), Counter[str]()
    for one in facts.catalog.values():
        if one.assigned_to is not None:
            meant[one.assigned_to] += 1
            served[one.assigned_to] += registrations.is_served(one.assigned)
    for node in sorted(facts.nodes.values(), key=lambda node: (node.name, node.id)):
        if node.role == Role.CONNECTOR.value and node.state is NodeState.ACTIVE:
            yield pb.ServingRow(
                node_id=node.id,
                node_name=node.name,
                connected=bool(registrations.instances(node.id)),
                resources=meant[node.id],
                resources_served=served[node.id],
            )
