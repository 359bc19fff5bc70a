"""Writing the audit record of an effect inside the effect's own transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define

from svc.audit.record import Sealer
from svc.interfaces.store import ITransaction
from svc.model.audit import NOTHING, Actor, AuditRecord, Event
from svc.model.canonical import Json
from svc.model.ids import Entropy, event_id
from svc.model.ledger import ChainRow, EntitySlice

MAX_POLICIES = 256
"""As many determining policies are named in a record and in an answer."""

ANONYMOUS = Actor("anonymous", "-")


def operator(uid: int) -> Actor:
    """The holder of the control socket (rule R19)."""
    return Actor("operator", f"local:{uid}")


def person(person_id: str) -> Actor:
    """A person, by opaque id."""
    return Actor("person", person_id)


def node(node_id: str) -> Actor:
    """A node of the registry."""
    return Actor("node", node_id)


@define
class Recorder:
    """Seals records of this instance and appends them.

    Attributes:
        origin: The node id of this Authority.
    """

    origin: str
    sealer: Sealer
    now: Callable[[], float]
    entropy: Entropy

    def append(
        self,
        tx: ITransaction,
        event: Event,
        actor: Actor,
        *,
        details: Mapping[str, Json] = NOTHING,
        entities: EntitySlice | None = None,
        **fields: Any,
    ) -> ChainRow:
        """Append one record; called inside a store function, so it may run again.

        Raises:
            SvcError: the record holds what its event does not classify; the
                transaction is then undone, and nothing is granted.
        """
        at = self.now()
        record = AuditRecord(
            event_id=event_id(at, self.entropy),
            time=at,
            event=event,
            actor=actor,
            origin=self.origin,
            details=details,
            **fields,
        )
        sealed = self.sealer.seal(record)
        return tx.audit.append(sealed.canonical, sealed.personal, entities)
