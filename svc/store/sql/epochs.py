"""Epochs in force, and the highest that each node offers."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from zope.interface import implementer

from svc.interfaces.epochs import IEpochs
from svc.model.cluster.registration import Epoch
from svc.store.sql.statements import Statements

_SELECT = "SELECT name, epoch, activated_at, activated_by FROM epochs"


@implementer(IEpochs)
@frozen
class Epochs:
    """See :class:`IEpochs`."""

    _db: Statements

    def get(self, name: str) -> Epoch | None:
        row = self._db.one(f"{_SELECT} WHERE name = ?", name)
        return None if row is None else Epoch(*row)

    def all(self) -> tuple[Epoch, ...]:
        return tuple(Epoch(*row) for row in self._db.all(f"{_SELECT} ORDER BY name"))

    def activate(self, epoch: Epoch) -> None:
        self._db.change(
            "INSERT INTO epochs (name, epoch, activated_at, activated_by) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch,"
            " activated_at = excluded.activated_at, activated_by = excluded.activated_by",
            epoch.name,
            epoch.epoch,
            epoch.activated_at,
            epoch.activated_by,
        )

    def offer(self, node_id: str, name: str, epoch: int) -> None:
        if not epoch:
            self._db.change(
                "DELETE FROM node_capabilities WHERE node_id = ? AND name = ?", node_id, name
            )
            return
        self._db.change(
            "INSERT INTO node_capabilities (node_id, name, value) VALUES (?, ?, ?)"
            " ON CONFLICT (node_id, name) DO UPDATE SET value = excluded.value",
            node_id,
            name,
            epoch,
        )

    def offers(self, name: str) -> Mapping[str, int]:
        rows = self._db.all("SELECT node_id, value FROM node_capabilities WHERE name = ?", name)
        return {row[0]: row[1] for row in rows}
