"""Rows of people and tokens, for programs."""

from __future__ import annotations

from svc.cli.output import moment
from svc.proto.gate.v1 import admin_pb2 as pb


def person_form(row: pb.PersonRow) -> dict[str, object]:
    """A person."""
    return {
        "id": row.id,
        "name": row.name or None,
        "state": row.state,
        "groups": list(row.groups),
    }


def token_row_form(row: pb.TokenRow) -> dict[str, object]:
    """A token, without its secret."""
    return {
        "id": row.id,
        "role": row.role,
        "name": row.name or None,
        "person": row.person_id or None,
        "expires_at": moment(row.expires_at),
        "used": row.used,
    }
