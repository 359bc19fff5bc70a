"""The last health report of each node; a new one takes its place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from attrs import frozen
from zope.interface import implementer

from svc.interfaces.inventory import INodeHealth
from svc.model.cluster.health import CheckFound, NodeHealth
from svc.model.doctor import CheckSeverity
from svc.store.sql.statements import TOGETHER, Row, Statements, marks, parts

_COLUMNS = "node_id, at, worst, failed, warnings, report"
_SEVERITIES = {severity.word: severity for severity in CheckSeverity}


@implementer(INodeHealth)
@frozen
class NodeHealthRows:
    """See :class:`INodeHealth`."""

    _db: Statements

    def put(self, reports: Iterable[NodeHealth]) -> None:
        latest = {one.node_id: one for one in reports}
        # One statement must not name a row twice, and PostgreSQL locks rows in their order.
        for some in parts([latest[node_id] for node_id in sorted(latest)], TOGETHER):
            some = self._registered(some)
            if not some:
                continue
            values = ", ".join([f"({marks(6)})"] * len(some))
            self._db.change(
                f"INSERT INTO node_health ({_COLUMNS}) VALUES {values}"
                " ON CONFLICT (node_id) DO UPDATE SET at = excluded.at, worst = excluded.worst,"
                " failed = excluded.failed, warnings = excluded.warnings,"
                " report = excluded.report",
                *chain.from_iterable(map(_row, some)),
            )

    def _registered(self, reports: Sequence[NodeHealth]) -> list[NodeHealth]:
        sql = f"SELECT id FROM nodes WHERE id IN ({marks(len(reports))})"
        known = {row[0] for row in self._db.all(sql, *(one.node_id for one in reports))}
        return [one for one in reports if one.node_id in known]

    def all(self) -> Mapping[str, NodeHealth]:
        rows = self._db.all(f"SELECT {_COLUMNS} FROM node_health ORDER BY node_id")
        return {row[0]: _health(row) for row in rows}


def _row(health: NodeHealth) -> Row:
    report = {
        "version": health.version,
        "found": [[one.id, one.severity.word] for one in health.found],
        "clock_secs": health.clock_secs,
    }
    return (
        health.node_id,
        health.at,
        None if health.worst is None else health.worst.word,
        health.failed,
        health.warnings,
        json.dumps(report, separators=(",", ":")),
    )


def _health(row: Row) -> NodeHealth:
    node_id, at, worst, failed, warnings, report = row
    told = json.loads(report)
    return NodeHealth(
        node_id=node_id,
        at=at,
        version=told["version"],
        worst=None if worst is None else _SEVERITIES[worst],
        failed=failed,
        warnings=warnings,
        found=tuple(CheckFound(id, _SEVERITIES[word]) for id, word in told["found"]),
        clock_secs=told.get("clock_secs", 0),  # an earlier build did not keep it
    )
