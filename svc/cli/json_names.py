"""The names in what commands print with ``--json``: one name for one thing, everywhere.

Times are texts in RFC 3339 and UTC, lengths of time are numbers of seconds whose name
ends in ``secs`` or ``seconds_left``, digests are hex, and what is not known or not there
is null.  A name that is not in this list is printed by no command; within ``labels``, ``why``
and ``classes`` the names are data, and the records of the log have those of the
log itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

KEYS: Mapping[str, str] = MappingProxyType(
    {
        # who and what
        "id": "the id of what this entry is about",
        "name": "its name",
        "kind": "the kind of a resource or of a finding",
        "role": "the role of a node",
        "state": "its state",
        "groups": "the groups of a person",
        "labels": "labels, name to value",
        "cluster": "the cluster's name",
        "person": "the id of the person",
        "authority_id": "the id of the Authority",
        "node_id": "the id of the node that a resource is assigned to",
        "node_name": "its name",
        "node_state": "whether that node is active or revoked",
        "resource": "the id of the resource",
        "resources": "how many resources are assigned to a node",
        "version": "the program's version",
        "source": "how a resource got into the catalog",
        "publication": "how resources that a Connector offers get into the catalog",
        # what a command did
        "added": "the people who were added",
        "removed": "the people who were taken out",
        "members": "how many people are in a group",
        "changed": "whether anything was changed",
        "damaged": "how many records there are from the first one that does not verify",
        "adopt": "whether the next start adopts it",
        "erased": "how many values were erased",
        "tunnels_ended": "how many tunnels ended",
        "moved": "the ids of the resources that were moved",
        "from": "the node they were assigned to",
        "to": "the node they are assigned to now",
        "commands": "what to type next",
        # joining
        "token": "the one-use token",
        "ca_pin": "SHA-256 of the cluster's root certificate",
        "key_sha256": "SHA-256 of a public key",
        "tokens": "the one-use tokens that wait",
        "used": "whether somebody has joined with it, or it was withdrawn",
        "issuer": "the operator who registered a key; of an account, its provider",
        "subject": "the account, as its provider names it",
        "config": "path of the configuration that was written",
        "recovery_codes": "codes that sign somebody in once each",
        "recovery_codes_left": "how many of them were not used",
        "code": "the one-time code to set a password with",
        "code_expires_at": "when that code expires",
        "second_factors": "what a person proves besides the password",
        "signed_out": "whether the sign-in of this machine has ended",
        "directory": "path of a directory",
        "root_key": "path of the root's private key",
        # certificates
        "certificate": "the certificate of the person",
        "certificate_sha256": "SHA-256 of the certificate",
        "certificates": "the certificates of a person that have not expired",
        "revoked": "whether it was revoked",
        "serials": "serial numbers of certificates that were revoked",
        "sign_ins_ended": "how many sign-ins ended",
        "tokens_revoked": "how many tokens were withdrawn",
        "serial": "serial number of a person's certificate",
        "ends_soon": "whether it expires soon, and the person has been warned",
        "leaf_serial": "serial number of a node's certificate",
        "seconds_left": "how long it is still valid",
        # times
        "at": "when it last happened",
        "first_at": "when it first happened",
        "bound_at": "when a resource was assigned",
        "created_at": "when it was made",
        "enrolled_at": "when a node joined",
        "expires_at": "when a token, a key or a certificate expires",
        "held_at": "when a row was held back",
        "issued_at": "when a certificate was issued",
        "last_seen": "when a node was last seen",
        "renew_until": "until when the certificate is renewed without a new sign-in",
        "queued_at": "when a row entered the queue",
        "started_at": "when a session opened",
        "since_at": "start of the time concerned",
        "time": "when a record or a head was made",
        "until_at": "end of the time concerned",
        # revisions
        "assignment_revision": "how often a resource was assigned",
        "catalog_version": "the catalog's version",
        "identity": "which of the resources that have had this id",
        "inventory_generation": "generation of the inventory assigned to a Connector",
        "inventory_served": "generation of the inventory that it serves",
        "policy_version": "the policy's version",
        "revision": "how often an entry was changed",
        # the policy
        "action": "what was asked for",
        "assumed": "facts of a request that nobody gave, as name=value",
        "author": "who set a policy",
        "considered": "ids of the policies whose scope fits a request",
        "decision": "allow or deny",
        "decision_after": "what the policy in the file decides",
        "decision_before": "what the active policy decides",
        "decision_id": "the decision's id",
        "actions": "actions, with how often they were asked for",
        "beyond": "changes of more sorts than are listed",
        "changed_count": "how many requests would be decided otherwise",
        "changes": "what would be decided otherwise",
        "decided": "how many requests were decided again",
        "directions": "changes by the decision before and after, with how many there are",
        "entities": "where the entities of decisions came from, with how many there are",
        "errors": "what failed when a policy was evaluated, as stable words",
        "missing_facts": "facts that policies read and the request does not have",
        "other_policies": "how many requests get the same decision by other policies",
        "policies": "ids of the policies that decided",
        "policies_after": "ids of the policies of the file that decide",
        "policies_before": "ids of the active policies that decide",
        "reason": "why, as a stable word",
        "sha256": "SHA-256 of a text or a file",
        "text": "the text of a policy, a refusal or a finding",
        "replay": "the name of a replay",
        "requests": "how many recorded requests there are",
        "request": "a recorded request, as the number of its record and its place there",
        "field": "a field of a record",
        "told_by": "whose word the records are, with how many there are",
        "unasked_actions": "actions that nobody asked for",
        "unasked_resources": "ids of resources that nobody asked for",
        "unasking_people": "how many people asked for nothing",
        "unused_policies": "ids of policies of the file that decided nothing",
        "undecidable": "requests that cannot be decided again, by the reason",
        "valid": "whether a policy can be activated",
        "why": "the reason given in each policy, id to text",
        # readiness
        "ready": "whether everything is in order",
        "no_new_sessions": "why no session can be opened now; empty where one can",
        "not_ready": "the reasons why it is not ready",
        "connected": "whether there is a connection",
        "running": "whether the resident runs",
        "served": "whether a Connector serves the resource now",
        "problem": "the problem; empty if there is none",
        # counts
        "count": "how many",
        "connectors": "how many Connectors are connected",
        "proxies": "how many Proxies are connected",
        "open_sessions": "how many sessions are open",
        "sessions": "how many sessions the resident carries",
        "held_rows": "rows of the audit queue that are held",
        "queued_rows": "rows of the audit queue",
        "records": "records of a log, or that a head covers",
        "rows": "how many rows of each kind there are, or each table has",
        # the log
        "anchored": "records that signed heads cover",
        "audit": "the newest signed head that is known",
        "audit_seq": "number of the log's last record",
        "event": "the event of a record",
        "event_id": "id of a record",
        "findings": "what does not verify",
        "first_seq": "number of the first record",
        "last_seq": "number of the last record",
        "first_missing": "number of the first record that is missing or differs",
        "hash": "hash of a record or a head",
        "head": "the signed head of a backup",
        "key_id": "SHA-256 of the certificate of the key that signed a row or a head",
        "last_hash": "hash of the log's last record",
        "log_id": "which log it is",
        "lost": "the head that is abandoned",
        "n": "number of a row in its spool",
        "origin": "the node that a row says it is of",
        "record_digest": "SHA-256 of a record as it was received",
        "seq": "number of a record",
        "spool_id": "the spool of a row",
        "state_seq": "number of the last record that changed state",
        "unsigned": "rows that have no signed record",
        "unsigned_count": "how many of them",
        "verified": "whether the log verifies",
        # the person's side
        "address": "host and port",
        "endpoints": "local endpoints",
        "proxy": "the connection to a Proxy",
        "ended": "sessions that were cut off",
        "refused": "sessions that were refused",
        "session_uid": "the id of a session",
        "session_uids": "the ids of sessions",
        "proxy_id": "the id of the Proxy that carries a session",
        "session_ended": "when the session that a decision opened ended",
        "session_lane": "the lane that it used",
        "session_reason": "why it ended, as a stable word",
        "socket": "path of a unix socket",
        "url": "what a browser is given",
        "web": "the page that lists web applications; empty while there is none",
        # store and backup
        "after": "how many rows there were afterwards",
        "applied": "migrations that were applied",
        "before": "how many rows there were",
        "classes": "what kinds of data a backup holds, and where",
        "copy_secs": "how long the copy took",
        "dialect": "the store's kind of SQL",
        "files": "files of a backup",
        "fingerprint": "SHA-256 of the rows that are taken over",
        "form": "the version of a backup's form",
        "ids": "migrations that are pending or not known",
        "level": "the newest migration of a store",
        "migrations": "migrations, each with how long it took",
        "mode": "permissions of a file",
        "moment": "what was running when a backup was made",
        "number": "its number, counted from 1",
        "path": "path of a file",
        "recipients": "public keys that a backup is encrypted to",
        "link": "target of a symbolic link",
        "root": "root of the tree that a head covers",
        "sort": "class of a file in a backup",
        "rewritten": "columns that a migration rewrote",
        "schema": "what a migration changes in the schema",
        "sealed": "encrypted files of a backup",
        "secs": "how long it took",
        "size": "bytes of a file",
        "stamp": "which backup it is",
        "standing": "whether the store fits this program",
        "store": "the store of a backup",
        "table": "a table of the store",
    }
)

DATA = frozenset(
    {
        *("labels", "why", "classes", "sealed"),
        *("actions", "directions", "entities", "told_by", "undecidable"),
    }
)
"""Names within these are data."""


def unknown(value: object) -> Iterator[str]:
    """The names in a document that are not in the list."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in KEYS:
                yield str(name)
            if name not in DATA:
                yield from unknown(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from unknown(inner)
