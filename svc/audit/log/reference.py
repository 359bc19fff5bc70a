"""The reference page of the audit log, made from the catalogue.

``python -m svc.audit.log.reference`` prints it; a test compares it with
``docs/reference/audit.md``.  Holds words only.
"""

from __future__ import annotations

import sys

from svc.model.audit.events import CATALOGUE, CATALOGUE_VERSION, DETAILS
from svc.model.audit.record import Field
from svc.model.session.ending import ENDINGS

_HEAD = """\
# The audit log

Made by `python -m svc.audit.log.reference`; do not edit.

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
names are joined when a record is shown, by `audit show` also in `about`: whom or what the \
record concerns |
| `origin`, `key_id` | the instance that wrote the record, and its key where it signed it |
| `node_id`, `resource_id`, `resource_kind`, `session_uid` | what it is about |
| `action`, `cedar_action`, `decision`, `decision_id`, `reason`, `policies` | what was asked and \
answered; `policies` are the `@id`s that decided |
| `policy_version`, `catalog_version`, `entities_digest` | what the answer was made from |
| `request` | the whole Cedar request, so that another policy can be asked the same |
| `trace_id` | of the trace, if there is one |
| `details` | the fields of the event |
| `state` | the protected rows that it changes; such a record is signed |

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
`latest` the newest. The newest 4,096 heads are kept, and of the older ones the last of each day
(UTC); the file is thinned when it has 8,192 recent lines, and the head after a hole says in
`pruned` how many are gone. Every head covers all records before it, so no record loses its proof.
The chain alone does not show that the newest records were cut off or that an older store was put
back; the heads do. Proxies, residents and the witnesses that `audit.witness` names get each head or
the newest one: who can change store, anchor and all of these can rewrite the log. See
[keeping signed heads](../how-to/audit-heads.md).

### A log that goes on from an older store

`svc authority audit adopt --reason TEXT` lets the log go on from an older store. The record
`store.restored` names the head that is gone on from (`head_size`, `head_hash`; absent where no head
that is kept is in the store), the greatest known head of the line that is given up (`lost_size`,
`lost_hash`, `until`), how many records are known to be in both lines (`shared_size`) and the
reason. The first head after it ends with this record, and its line has the member `restored`:
`record`, and `before`, the right edge of the Merkle tree without the record, largest subtree
first, in hex. Both fold to the signed `root`. Who keeps a head of the lost
line (that very head, or one over fewer records, but more than both lines share, that is not later)
goes on by that line alone. Shared are the records under the newest head in the store that was
signed no later than the lost one: what is later may cover records of this line from before it was
noticed.

`anchor/lost-SIZE-HASH.jsonl` has the heads that were given up, `anchor/restored.jsonl` the last
eight heads with `restored`, and `anchor/greatest` a head that somebody showed and the store
contradicts.

## Rows in force

Policies, persons with their groups, nodes with their keys, join tokens, persons' certificates and
resources are in force only as signed records say; the tables of the store are a copy. A record that
changes such rows has the member `state`:

| Member | Meaning |
|---|---|
| `n` | counts these records from 1 without a hole |
| `prev` | `hash` of the record with `n` - 1; zero bytes for the first |
| `rows` | for each row its subject (`person:ID`, `policy:7`), the SHA-256 of its fields or null \
where it is gone, and for tokens and certificates the Unix second from which it means nothing |
| `catalog` | the revision of the catalog after it, where it changed |

`key_id` then names the signer's certificate, of the purpose `audit-origin` under the cluster's
root; the signature is over `svc-audit-origin-v1`, a zero byte and the record, and lies in the table
`state_changes`. A row that is not what the newest record of its subject says has no effect
anywhere: `state.unsigned`, once for each such row, within one reload pass. See
[rows that nobody signed for](../how-to/unsigned-rows.md).

`anchor/state.json` names the newest such record and `anchor/state-rows.json` is what was in force
at one of them. A store that ends before it or differs from it is refused at start \
(`state_rolled_back`), and so is one whose records do not follow from one another (`state_broken`).

## Records of others

A Proxy, and an Authority that stands by, may not append. Such an origin seals records as the leader
does, numbers them in a *spool* of its own (a new one at each start), signs them with the audit key
it enrolled, and the leader appends them from the [audit queue](../how-to/outbox.md) as they are.
Such a record has the member `spool`:

| Member | Meaning |
|---|---|
| `id` | the spool, 32 hex digits |
| `n` | counts the spool's rows from 1 without a hole |
| `prev` | the SHA-256 of `svc-audit-row-hash-v1`, a zero byte and the row with `n` - 1; zero \
bytes for the first |

`key_id` is the SHA-256 of the origin's audit key (32 raw bytes, Ed25519); the signature is over
`svc-audit-row-v1`, a zero byte and the record, and is a part of the leaf of the log's tree. The
first row of a spool is `spool.open`, which names the origin's earlier spools that it still keeps;
`spool.close` is the last one of a life that ended in order. Rows that do not come are `audit.gap`
after 10 minutes, and `audit.filled` if they come after all.

## Verifying

`svc --config C authority audit verify` prints `verified N records, head seq S hash H, anchor A`
(with ` at K` where the newest head covers K of them) and exits 0. Otherwise it exits 6 and names
the first bad record and the kind of fault:

| Kind | Meaning |
|---|---|
| `gap` | a record is missing, doubled or out of order |
| `hash` | the record differs from the one that was hashed |
| `prev_link` | it does not name the record before it |
| `record` | what is stored is not a record |
| `personal` | a personal value is not the one that was hashed |
| `head_mismatch` | the records differ from those that a signed head covers |
| `head_beyond_end` | a head covers more records than there are: the tail was cut, or an \
older store put back |
| `head_link` | a head is missing, doubled or out of order |
| `head_signature` | a head's signature or certificate is not good |
| `head_unreadable` | a head cannot be read |
| `origin` | a record with a place in a spool was not signed by its origin for that place |
| `no_anchor` | there are records and no head: nothing is proved |
| `slice_changed` | the entities kept for a decision are not those whose digest its record names |
| `slice_missing` | the entities that a decision was made over are not kept |
| `slice_orphaned` | entities are kept that no record of a decision names |

With `--anchor FILE` the log is verified against heads kept elsewhere as well: a copy of
`heads.jsonl` or of `latest`, or the last line of an export. FILE may be a pipe
(`<(command)`) in which something arrives at least every 10 seconds; a file without a head is
refused, with status 6. A store and an anchor that were both
put back are found so: `head_beyond_end` at the first record that is missing. It reads a record at
a time, in one snapshot, beside a running Authority or without one.

The copy that a witness keeps is taken as it is: of a line that was given up on purpose its heads
are left out, if the same file proves it.

At start the Authority goes on from its newest head. It refuses a store behind it, or behind what a
witness in a file has (`audit_rolled_back`), a log without any head past the first 256 records
(`audit_anchor_missing`) and heads of another log (`audit_head_foreign`). While it runs it looks at
the store every five seconds, or at each `snapshot.reload_secs` where that is shorter, and compares
every write with the end it knows: a store that is behind is `audit_rolled_back` in `/readyz`, and
nothing is written to it. While it leads nobody else appends: a record past the end that its own
writes left is `audit_foreign_record`, nothing is written behind it, and no head covers it.

Each record is read back before its transaction is committed: a store that drops or changes it is
`audit_record_lost`, and nothing of that transaction stands. Each look verifies what was appended
since the newest head, however long the next one is away: a record that was altered meanwhile is
`audit_broken`, and no head covers it. Where no head can be signed, for this or because its key has
ended or the anchor directory cannot be written, and also when a head is more than five seconds
overdue for any other reason (a disk that does not answer, rows that cannot be read), `/readyz` says
`audit_head_unsigned`, and no session is granted until one is signed. The three heal by themselves
once their cause is gone.

## Exports

`svc --config C authority audit export [--format json|cef|splunk-hec] [--after SEQ] [--personal]`
writes the records past SEQ (all, without it) that the newest signed head covers, a line each. A
covered record cannot change any more: an export that begins `--after` the last number of the one
before repeats no record and leaves none out, and a number past the newest head is refused. Each
record is checked before it is written; at the first that is not as it was the export ends with
status 6.

Every line is printable ASCII, whatever a peer said. In `json`, which is what can be verified, it
is JSON with its members sorted, without spaces, what is not printable ASCII as `\\u` and four
lower-case hex digits (two such for a character past U+FFFF):

| Line | Members |
|---|---|
| a record | those of the record; `form` (`svc-audit-export-v1`), `seq`, `prev_hash`, `hash`; with \
`--personal` and only then `personal`, a list of `path`, `salt` (hex) and `value` (JSON as \
text); `origin_signature` (base64) where another instance than the leader wrote it |
| the last one | a signed head over all records so far: `head`, `signature` (base64), `chain` (the \
certificate of its key, DER in base64) |

What was hashed is the record's own members in canonical JSON. Exports that follow each other may
be joined into one file. The chain does not cover `origin_signature`, the tree does: an export from
record 1 on shows that each is as it was, one that begins `--after` a record does not, until it is
joined to those before it. Without a record past SEQ there is no line at all.

`cef` is the Common Event Format, version 0: the code as signature id, severity 3, 6 or 9 (info,
warning, error); `rt`, `externalId` (the sequence number), `deviceExternalId` (the origin), `suid`
(the actor's id), `act`, `outcome`, `reason`, `cat`; every other member as `svc` and its name in
camel case, `svcHash` and `svcPrevHash` among them; `request` is left out. Backslash, equals sign,
pipe and line breaks are escaped as the format says, everything else that is not printable ASCII
is shown as `\\uNNNN`. `splunk-hec` is an event for `/services/collector/event` a line. Both are
copies to search in; they end with the same record as `json` and prove nothing.

## Proofs

`svc --config C authority audit prove SEQ [--to N]` writes a proof that record SEQ is in the log,
`… prove --from M [--to N]` that the log of M records is the beginning of the later one. Both are
under the newest signed head, or the one over N records. A proof is one line in the form of an
export:

| `form` | Members |
|---|---|
| `svc-audit-inclusion-v1` | `seq`, `record`, `path`, `head`; `personal` as above where asked for, \
`origin_signature` as above |
| `svc-audit-consistency-v1` | `from_size`, `from_root`, `path`, `head` |

`path` is a list of hashes in hex: the audit path of RFC 6962 section 2.1.1 for the leaf SEQ - 1,
or the consistency proof of section 2.1.2; they are checked as in RFC 9162 sections 2.1.3.2 and
2.1.4.2. `head` is a signed head with `head`, `signature` and `chain`.

## For an auditor

`contrib/verify_audit.py` is one file that needs Python, `cryptography` and nothing of svc. Read
it first: it is short. The anchor key is named on the command line, by its certificate (`--key
FILE`) or the SHA-256 of it (`--fingerprint HEX`, the anchor that `audit verify` prints), and must
come from somebody you trust; an export or proof under any other key is refused, whatever it
brings along.

The anchor key ends after 90 days, and `authority keys renew anchor` prints the fingerprint of the
next one. Either option may be given again: whoever checks what was signed by both keys, such as a
head kept from before, gives both fingerprints.

```
svc --config C authority audit export >log.jsonl
python3 contrib/verify_audit.py --fingerprint HEX log.jsonl
tail -n 1 log.jsonl >mine.json
```

Keep `mine.json`, the head you were shown. With `--head mine.json` the next export must contain
the very log that it was signed over: who shows you another history, or one without its newest
records, is found out. Two auditors compare what they were shown with `--head mine.json --head
yours.json --proof grown.json`, where the last one is a consistency proof between the two sizes;
heads of one size must be equal. `--proof FILE` checks a proof, `--seq N` that it is of record N,
`--after SEQ` an export that begins past SEQ.

Status 0 means that everything given holds and is of one history; 1 that something does not, with
the line and the record; 2 that the command line is wrong or a file cannot be opened.

What this shows: that no record before a head that you hold has been changed, removed or put in
since. Not that what was recorded is true, nor that everything was recorded.
"""

_ENDINGS_HEAD = """\
The `reason` of `session.end` and `session.abandoned`. The same words are shown to the session's
person: by `svc proxy-ssh` as it ends, in the log of `svc up`, by `svc status --explain` and by
`svc why`. `not_told` is shown where a peer gave no reason, or one that is not listed here."""


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
            "## How a session ended",
            "",
            _ENDINGS_HEAD,
            "",
            "| Reason | Meaning |",
            "|---|---|",
            *(f"| `{word}` | {text} |" for word, text in ENDINGS.items()),
            "",
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
