r"""The formats of exports and proofs.  Pure.

Every line is JSON of one form: members sorted, no spaces, ASCII only, with
lower-case ``\u`` escapes.  So no terminal obeys what a peer said, one record is
one line, and a change of any bit either is no such line or says something else.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring_ascii
from typing import cast

from svc.audit.checkpoint.head import to_line
from svc.audit.log.alike import OURS, Alike
from svc.audit.log.covered import CoveredRow
from svc.audit.log.show import as_json
from svc.audit.log.verify import ChainFault
from svc.model.audit.entry_tree import entry_path
from svc.model.audit.events import REQUEST_DECISION
from svc.model.audit.record import SignedHead
from svc.model.canonical import Json, decode, write_plain

EXPORT_FORM = "svc-audit-export-v1"
INCLUSION_FORM = "svc-audit-inclusion-v1"
REQUEST_FORM, ENTRY_FORM = "svc-audit-request-v1", "svc-audit-entry-v1"
CONSISTENCY_FORM = "svc-audit-consistency-v1"

_quoted = encode_basestring_ascii


def json_line(entry: CoveredRow) -> str:
    """The record with its place in the chain: what an outsider verifies."""
    row = entry.row
    if entry.alike is not None:
        return _spliced(row.canonical.decode("ascii"), entry.alike, _ours(entry))
    form: dict[str, Json] = {**_exact(entry), "form": EXPORT_FORM, "seq": row.seq}
    form["prev_hash"], form["hash"] = row.prev_hash.hex(), row.hash.hex()
    return as_json({**form, **_personal(entry), **_signature(entry)})


def _ours(entry: CoveredRow) -> tuple[str, ...]:
    """Our members of the line, in the order of their names; empty for one that is absent."""
    row, personal, signature = entry.row, "", ""
    if entry.personal:
        values = ",".join(
            f'{{"path":{_quoted(each.path)},"salt":"{each.salt.hex()}","value":{_quoted(each.value)}}}'
            for each in entry.personal
        )
        personal = f',"personal":[{values}]'
    if row.signature:
        signature = f',"origin_signature":"{b64encode(row.signature).decode()}"'
    return (
        f',"form":"{EXPORT_FORM}"',
        f',"hash":"{row.hash.hex()}"',
        signature,
        personal,
        f',"prev_hash":"{row.prev_hash.hex()}"',
        f',"seq":{row.seq}',
    )


def _spliced(text: str, alike: Alike, ours: Sequence[str]) -> str:
    """The record *text*, which is written as in a line, with our members at their places."""
    form, said = alike
    parts, begin = list[str](), 0
    for group, own in zip(form.places, ours, strict=True):
        if own:
            at = said.start(group)
            parts += (text[begin:at], own)
            begin = at
    parts.append(text[begin:])
    return "".join(parts)


def json_lines(entry: CoveredRow) -> Iterator[str]:
    """The record, and of a batch each of its entries on a line of its own after it."""
    yield json_line(entry)
    for index in range(0 if entry.batch is None else len(entry.batch.entries)):
        told = _request(entry, index)
        own = dict(entry.batch.entries[index]) if entry.batch else {}
        del told["entry"]
        form: dict[str, Json] = {"form": REQUEST_FORM, "seq": entry.row.seq}
        form["event"] = REQUEST_DECISION.name
        yield as_json({**own, **form, **told})


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


def entry_inclusion(
    entry: CoveredRow, index: int, hashes: Sequence[bytes], head: SignedHead
) -> str:
    """A proof that one entry of the batch *entry* is in the log; it shows no other entry."""
    assert entry.batch is not None
    path = entry_path(entry.batch.leaves(), index)
    return as_json(
        {
            "entry_path": [each.hex() for each in path],
            "form": ENTRY_FORM,
            "head": _head(head),
            "path": [each.hex() for each in hashes],
            "record": _exact(entry),
            "seq": entry.row.seq,
            **_request(entry, index),
            **_signature(entry),
        }
    )


def _request(entry: CoveredRow, index: int) -> dict[str, Json]:
    """One entry, the header of its session, and those of its personal values that are told."""
    assert entry.batch is not None
    form: dict[str, Json] = {
        "entry": entry.batch.entries[index],
        "index": index,
        "header": entry.batch.header(index).form(),
    }
    values = entry.batch.values(index)
    if values:
        form["personal"] = [
            {"path": each.path, "salt": each.salt.hex(), "value": each.value} for each in values
        ]
    return form


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
        exact = write_plain(record).encode() == entry.row.canonical
    except (ValueError, RecursionError):  # a lone surrogate, NaN, more levels than can be written
        exact = False
    if not exact or not record.keys().isdisjoint(OURS):
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
