"""The reference page of the audit log, made from the catalogue.

``python -m svc.audit.reference`` prints it; a test compares it with
``docs/reference/audit.md``.  Holds words only.
"""

from __future__ import annotations

import sys

from svc.model.audit import Field
from svc.model.events import CATALOGUE, CATALOGUE_VERSION, DETAILS

_HEAD = """\
# The audit log

Made by `python -m svc.audit.reference`; do not edit.

Every effect has a record in one chain, committed with the effect: a session opens and a
credential leaves only after its record is durable. The log is apart from logs, metrics and traces.

## A record

A record is canonical JSON (RFC 8785; no floating point, integers within 2^53, ASCII member names).
A member that does not apply is absent.

| Member | Meaning |
|---|---|
| `event_id` | UUIDv7 of this record |
| `time` | RFC 3339, UTC, six digits of a second |
| `event`, `code`, `class`, `severity` | from the table of events below |
| `actor` | `kind` (`person`, `node`, `operator`, `service`, `anonymous`) and opaque `id`; \
names are joined when a record is shown |
| `origin`, `key_id` | the instance that wrote the record, and its key where it signed it |
| `node_id`, `resource_id`, `resource_kind`, `session_uid` | what it is about |
| `action`, `cedar_action`, `decision`, `decision_id`, `reason`, `policies` | what was asked and \
answered; `policies` are the `@id`s that decided |
| `policy_version`, `catalog_version`, `entities_digest` | what the answer was made from |
| `request` | the whole Cedar request, so that another policy can be asked the same |
| `trace_id` | of the trace, if there is one |
| `details` | the fields of the event |

Every field is *public*, *personal* or *secret*. A secret one is never recorded. A personal one \
stands
in the record as `{"personal": HEX}`, the SHA-256 of a random salt of 16 bytes followed by the value
as canonical JSON; salt and value are kept beside the record and can be erased, and the log still
verifies. Lone surrogates and NUL in what a peer said become visible escapes, and text past 4,096
characters is cut and ends in its digest. A request that cannot be kept exactly is never allowed.

## The chain

```
hash(n) = SHA-256("svc-audit-v1" 00, n as 8 bytes, hash(n-1), length as 4 bytes, record)
```

Numbers are big-endian, the first record has n = 1, and hash(0) is 32 zero bytes.

## Signed heads

The leader signs a head over all records every 256 records, a second after the first that no head
covers, and on stop. A head is canonical JSON of `cluster`, `log_id`, `tree_size`, `root`,
`last_hash`, `time`, `lease_epoch`, `leader`, `previous_head_hash`, `key_id`; the signature is over
`svc-audit-head-v1`, a zero byte and these bytes. `root` is the Merkle tree hash of RFC 6962; a leaf
is the record's length as 4 bytes, the record, and its origin's signature (none where the leader
wrote it). `previous_head_hash` is the SHA-256 of the previous head's bytes and signature; `key_id`
the SHA-256 of the anchor certificate.

Heads are in `anchor/` of the state directory, outside the store: `heads.jsonl` has a line a head,
`latest` the newest. The chain alone does not show that the newest records were cut off or that an
older store was put back; the heads do. Copy `anchor/` where the gateway's operator cannot write:
who can change both store and heads can rewrite the log.

## Verifying

`svc --config C authority audit verify` prints `verified N records, head seq S hash H, anchor A`
(with ` at K` where the newest head covers K of them) and exits 0. Otherwise it exits 6 and names
the first bad record and the kind of fault:

| Kind | Meaning |
|---|---|
| `gap` | a record is missing, doubled or out of order |
| `hash` | the record is not the one that was hashed |
| `prev_link` | it does not name the record before it |
| `record` | what is stored is not a record |
| `personal` | a personal value is not the one that was hashed |
| `head_mismatch` | the records are not those that a head was signed over |
| `head_beyond_end` | a head covers more records than there are: the tail was cut, or an \
older store put back |
| `head_link` | a head is missing, doubled or out of order |
| `head_signature` | a head's signature or certificate is not good |
| `head_unreadable` | a head cannot be read |
| `no_anchor` | there are records and no head: nothing is proved |

At start the Authority goes on from its newest head. It refuses a store behind it
(`audit_rolled_back`), a log without any head past the first 256 records (`audit_anchor_missing`)
and heads of another log (`audit_head_foreign`).
"""


def page() -> str:
    """The whole page."""
    events = [
        f"| `{event.name}` | {event.code} | {event.event_class.value} | {event.severity.value} |"
        f" {event.meaning} | {', '.join(f'`{field.name}`' for field in event.fields)} |"
        for event in CATALOGUE
    ]
    fields = [_field(DETAILS[name]) for name in sorted(DETAILS)]
    return "\n".join(
        [
            _HEAD,
            f"## Events (catalogue version {CATALOGUE_VERSION})",
            "",
            "| Event | Code | Class | Severity | Meaning | Details |",
            "|---|---|---|---|---|---|",
            *events,
            "",
            "## Details",
            "",
            "| Field | Form | Sensitivity | Meaning |",
            "|---|---|---|---|",
            *fields,
            "",
        ]
    )


def _field(field: Field) -> str:
    return f"| `{field.name}` | {field.shape.value} | {field.sensitivity.value} | {field.meaning} |"


if __name__ == "__main__":
    sys.stdout.write(page())
