"""Holds a record of its own against the session that it names, as Authority granted it.

A Proxy says nothing of a session that it was not granted, and of its own it says neither another
person nor another resource or kind (rule R25).  In batches ``svc.audit.ingest.requests`` sees to
that.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from svc.audit.ingest.requests import GatedKind
from svc.audit.ingest.sampled import SessionRow
from svc.audit.log.forms import mapping
from svc.errors import Malformed
from svc.model.audit.batch import sessions_named
from svc.model.audit.spool import SpoolRow
from svc.model.canonical import Json
from svc.model.cluster.agent import caller_kind

_MEMBER = b'"session_uid":"'
_UID = re.compile(rb'([0-9a-f]{32})"')


def sessions_of(row: SpoolRow) -> set[str]:
    """The sessions that a row names, beside it or itself; nothing is trusted, all is bounded."""
    found = sessions_named(row.personal)
    # In a canonical record nothing that may hold such a member comes after its own.
    own = _UID.match(row.canonical, row.canonical.rfind(_MEMBER) + len(_MEMBER))
    return found if own is None else found | {own[1].decode()}


def check_of_session(
    record: Mapping[str, Json],
    origin: str,
    kinds: Mapping[str, GatedKind],
    session_row: SessionRow,
) -> None:
    """Return if what *record* says of its session is so.

    Raises:
        Malformed: naming what is not.
    """
    session = session_row(str(record.get("session_uid")))
    if session is None or session.proxy_id != origin:
        raise Malformed("audit row: it is of a session that this Proxy was not granted")
    actor = mapping(record["actor"])
    if (actor.get("kind"), actor.get("id")) != _holder(session.person_id):
        raise Malformed("audit row: its actor is not whose session it is")
    said = (record.get("resource_kind"), record.get("resource_id"))
    if said != (session.kind, session.resource_id):
        raise Malformed("audit row: its resource is not that of its session")
    if session.kind not in kinds:
        raise Malformed("audit row: the kind of its session has no gate, or is not enabled")


def _holder(id: str) -> tuple[str, str]:
    """Whose session it is, as an actor of records."""
    return caller_kind(id), id
