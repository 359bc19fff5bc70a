"""What a migration is tested by, and the rows that many of them have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from contrib.level_rows import Ids, Row, digest, made_ahead

NO_ROW: Row = {}
Placed = tuple[str, Row]
"""A table, and a row for it."""


@frozen
class Case:
    """One migration.

    Attributes:
        before: Rows of before; afterwards they are as they were.
        rewritten: Columns of theirs that the migration is there to change.
        grows: Tables of theirs to which it adds rows.
        good: A row that is taken afterwards.  Of a new table: one that lacks no value of its own is
            not taken.
        optional: Columns of a new table that may be empty, though *good* has them.
        refused: Changes of *good* that make a row that is not.
        clash: The same, for rows that are refused beside it.
        beside: The same, for rows that are taken beside it.
        gone_with: A statement that takes *good* along with what it refers to.
        found_by: A query that goes by the index which the migration makes.
        then: What queries show at the end.
    """

    before: Sequence[Placed] = ()
    rewritten: tuple[str, ...] = ()
    grows: tuple[str, ...] = ()
    good: Placed | None = None
    optional: tuple[str, ...] = ()
    refused: Sequence[Row] = ()
    clash: Sequence[Row] = ()
    beside: Sequence[Row] = ()
    gone_with: str = ""
    found_by: str = ""
    then: Mapping[str, Sequence[tuple[Any, ...]]] = {}


H1, H2 = digest("one"), digest("two")
SHORT = b"short"

IDS = Ids(
    authority="a1",
    connector="n1",
    person="p1",
    approver="p2",
    group="dev",
    resource="r1",
    session="s1",
    certificate=H1,
    version=2,
    parent=1,
)
AHEAD = made_ahead(IDS)


def ahead(table: str) -> Placed:
    """The row of a table that is made ahead."""
    return table, AHEAD[table][0]


def but(placed: Placed, **changes: Any) -> Placed:
    """The row with some other values."""
    return placed[0], {**placed[1], **changes}


TOKEN: Placed = (
    "join_tokens",
    {
        "id": "t1",
        "secret_sha256": H1,
        "role": "proxy",
        "bound_to": None,
        "added_at": 1.0,
        "expires_at": 2.0,
        "spent_at": None,
    },
)
NODE: Placed = (
    "nodes",
    {
        "id": "n1",
        "name": "c1",
        "role": "connector",
        "key_sha256": H1,
        "audit_key": H1,
        "state": "active",
        "generation": 1,
        "leaf_serial": "01",
        "leaf_key_sha256": H1,
        "leaf_expires": 9.5,
        "enrolled_at": 1.0,
        "revoked_at": None,
        "last_seen": None,
        "version": "0.10.0",
    },
)
AUTHORITY = but(NODE, id="a1", name="authority-a1", role="authority", audit_key=H2)
PERSON: Placed = (
    "persons",
    {
        "id": "p1",
        "name": "ada",
        "state": "active",
        "added_at": 1.0,
        "revoked_at": None,
    },
)
APPROVER = but(PERSON, id="p2", name="eve")
GROUP: Placed = "person_groups", {"name": "dev", "added_at": 1.0}
CERTIFICATE: Placed = (
    "person_certificates",
    {
        "sha256": H1,
        "serial": "01",
        "person_id": "p1",
        "issued_at": 1.0,
        "expires": 9.0,
        "revoked_at": None,
    },
)
APPROVAL_BY = but(CERTIFICATE, person_id="p2")
RESOURCE: Placed = (
    "resources",
    {
        "id": "r1",
        "kind": "ssh",
        "assigned_to": "n1",
        "source": "manual",
        "revision": 1,
        "added_at": 1.0,
        "last_served_at": None,
        "last_served_by": None,
    },
)
POLICY: Placed = (
    "policy_versions",
    {
        "version": 1,
        "text": "permit(principal, action, resource);",
        "sha256": H1,
        "author": "local:0",
        "created_at": 1.0,
        "activated_at": 2.0,
    },
)
DRAFT = but(POLICY, version=2, activated_at=None)
SESSION: Placed = (
    "sessions",
    {
        "uid": "s1",
        "person_id": "p1",
        "resource_id": "r1",
        "kind": "tcp",
        "connector_id": "n1",
        "proxy_id": "x1",
        "decision_id": "d1",
        "started_at": 1.0,
        "state": "open",
        "ended_at": None,
        "end_reason": "",
        "bytes_up": 0,
        "bytes_down": 0,
    },
)
RECORD: Placed = (
    "audit_log",
    {
        "seq": 1,
        "prev_hash": H1,
        "hash": H2,
        "canonical": '{"actor":{"id":"p1"},"decision_id":"d1","event":"session.start",'
        '"session_uid":"s1","time":"1970-01-01T00:00:01Z"}',
    },
)
KEY: Placed = (
    "key_revisions",
    {
        "kind": "node",
        "revision": 1,
        "certificate": "PEM",
        "state": "active",
        "since": 1.0,
    },
)
SIGNER: Placed = "state_signers", {"key_id": "k1", "certificate": b"\0DER"}
QUEUED: Placed = (
    "outbox",
    {
        "id": 1,
        "origin": "n1",
        "spool_id": "sp1",
        "n": 1,
        "record": b"{}",
        "personal": b"",
        "key_id": b"",
        "signature": b"",
        "digest": H1,
        "size": 2,
        "queued_at": 1.0,
        "hold": None,
        "held_at": None,
    },
)
SPOOL: Placed = (
    "outbox_spools",
    {
        "origin": "n1",
        "spool_id": "sp1",
        "high": 3,
        "top": H1,
        "holes": "2-2",
        "closed": None,
        "lost": 0,
        "given_up": None,
        "holed_since": 4.5,
    },
)
MEMBER: Placed = "authority_members", {"owner": "authority1", "node_id": "a1", "beats": 7}
