r"""The formats of exports and proofs.  Pure.

Every line is JSON of one form: members sorted, no spaces, ASCII only, with
lower-case ``\u`` escapes.  So no terminal obeys what a peer said, one record is
one line, and a change of any bit either is no such line or says something else.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import cast

from svc.audit.checkpoint.head import to_line
from svc.audit.log.covered import CoveredRow
from svc.audit.log.show import as_json
from svc.audit.log.verify import ChainFault
from svc.model.audit.record import SignedHead
from svc.model.canonical import Json, decode

EXPORT_FORM = "svc-audit-export-v1"
INCLUSION_FORM = "svc-audit-inclusion-v1"
CONSISTENCY_FORM = "svc-audit-consistency-v1"

_canonical = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False
).encode
"""What an outsider computes; faster than our own, which also judges what it is given."""

_OURS = frozenset({"form", "hash", "origin_signature", "personal", "prev_hash", "seq"})
"""Members of a line that are not the record's."""


def json_line(entry: CoveredRow) -> str:
    """The record with its place in the chain: what an outsider verifies."""
    form: dict[str, Json] = {**_exact(entry), "form": EXPORT_FORM}
    form["seq"] = entry.row.seq
    form["prev_hash"], form["hash"] = entry.row.prev_hash.hex(), entry.row.hash.hex()
    return as_json({**form, **_personal(entry), **_signature(entry)})


def head_line(head: SignedHead) -> str:
    """The head that covers the records before it, with the one certificate of its key."""
    return to_line(head).decode("ascii")


def inclusion(entry: CoveredRow, hashes: Sequence[bytes], head: SignedHead) -> str:
    """A proof that *entry* is in the log that *head* was signed over."""
    return as_json(
        {
            "form": INCLUSION_FORM,
            "head": _head(head),
            "path": [each.hex() for each in hashes],
            "record": _exact(entry),
            "seq": entry.row.seq,
            **_personal(entry),
            **_signature(entry),
        }
    )


def consistency(size: int, root: bytes, hashes: Sequence[bytes], head: SignedHead) -> str:
    """A proof that the log of *size* records with that root begins the one under *head*."""
    return as_json(
        {
            "form": CONSISTENCY_FORM,
            "from_root": root.hex(),
            "from_size": size,
            "head": _head(head),
            "path": [each.hex() for each in hashes],
        }
    )


def _exact(entry: CoveredRow) -> dict[str, Json]:
    """The record, of which the canonical form is what was hashed.

    Raises:
        ChainFault: what was hashed is not in canonical form; nobody could verify the line.
    """
    record = cast("dict[str, Json]", entry.record)
    try:
        exact = _canonical(record).encode() == entry.row.canonical
    except UnicodeEncodeError:
        exact = False
    if not exact or not _OURS.isdisjoint(record):
        raise ChainFault(entry.row.seq, "record", "the record is not in its canonical form")
    return record


def _personal(entry: CoveredRow) -> dict[str, Json]:
    if not entry.personal:
        return {}
    return {
        "personal": [
            {"path": each.path, "salt": each.salt.hex(), "value": each.value}
            for each in entry.personal
        ]
    }


def _signature(entry: CoveredRow) -> dict[str, Json]:
    if not entry.row.signature:
        return {}
    return {"origin_signature": b64encode(entry.row.signature).decode()}


def _head(head: SignedHead) -> Json:
    return {
        "chain": [b64encode(der).decode() for der in head.signed.chain],
        "head": decode(head.signed.payload),
        "signature": b64encode(head.signed.signature).decode(),
    }
