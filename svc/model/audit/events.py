"""The catalogue of audit events: every name, code, class, severity and field.

One table, so that an operator can route by code and an auditor knows which
words mean what.  Codes and names are never changed or used again; bump
:data:`CATALOGUE_VERSION` with each addition.  Each field name has one meaning
and one sensitivity everywhere.  This module holds no code that writes records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from svc.errors import PluginError
from svc.model.audit.record import Event, EventClass, Field, Sensitivity, Severity, Shape
from svc.model.policy.terms import ActionTerm, AttributeTerm

CATALOGUE_VERSION = 10

_PUBLIC, _PERSONAL, _SECRET = Sensitivity.PUBLIC, Sensitivity.PERSONAL, Sensitivity.SECRET
_NUMBER, _FLAG, _TEXTS = Shape.NUMBER, Shape.FLAG, Shape.TEXTS
_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+\Z")
_FIELD_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_CODE = re.compile(r"SVC[0-9]{4}[IWE]\Z")
_LETTERS = {"I": Severity.INFO, "W": Severity.WARNING, "E": Severity.ERROR}
_SENSITIVITIES, _SHAPES = frozenset(Sensitivity), frozenset(Shape)


def _by_name(*fields: Field) -> Mapping[str, Field]:
    return MappingProxyType({field.name: field for field in fields})


DETAILS: Mapping[str, Field] = _by_name(
    Field("access_request", _PUBLIC, "id of the request for access"),
    Field(
        name="actions",
        sensitivity=_PUBLIC,
        meaning="what may be done in a person's name",
        shape=_TEXTS,
    ),
    Field("agent_id", _PUBLIC, "the agent concerned"),
    Field("agent_name", _PUBLIC, "name of the agent"),
    Field("delegation_id", _PUBLIC, "public id of a delegation"),
    Field("acts_as", _PUBLIC, "the person that another one's requests are made as"),
    Field(
        name="approvers",
        sensitivity=_PUBLIC,
        meaning="ids of the people whose approvals counted",
        shape=_TEXTS,
    ),
    Field(
        name="assignment_revision",
        sensitivity=_PUBLIC,
        meaning="how often the resource was assigned",
        shape=_NUMBER,
    ),
    Field(
        name="bytes_down",
        sensitivity=_PUBLIC,
        meaning="bytes from the target to the client",
        shape=_NUMBER,
    ),
    Field(
        name="bytes_up",
        sensitivity=_PUBLIC,
        meaning="bytes from the client to the target",
        shape=_NUMBER,
    ),
    Field("certificate_sha256", _PUBLIC, "digest of the certificate concerned"),
    Field(
        name="change", sensitivity=_PUBLIC, meaning="names of the fields that changed", shape=_TEXTS
    ),
    Field("connector_id", _PUBLIC, "the Connector concerned"),
    Field("approved_by", _PUBLIC, "the person who approved a request for access"),
    Field(
        name="approved_until",
        sensitivity=_PUBLIC,
        meaning="when an approval ends, in seconds since the epoch",
        shape=_NUMBER,
    ),
    Field("asked_reason", _PERSONAL, "why a person asked for access, in their own words"),
    Field(
        name="asked_secs",
        sensitivity=_PUBLIC,
        meaning="for how long access was asked for, in seconds",
        shape=_NUMBER,
    ),
    Field(
        name="asked_uses",
        sensitivity=_PUBLIC,
        meaning="how many sessions access was asked for; absent: any number",
        shape=_NUMBER,
    ),
    Field("text_sha256", _PERSONAL, "SHA-256, in hex, of the exact text that an approval is for"),
    Field("ends_at", _PUBLIC, "when it ends"),
    Field(name="count", sensitivity=_PUBLIC, meaning="how many", shape=_NUMBER),
    Field(
        name="duration_ms",
        sensitivity=_PUBLIC,
        meaning="how long it lasted, in milliseconds",
        shape=_NUMBER,
    ),
    Field("document_sha256", _PUBLIC, "SHA-256 of the document that an approver was shown"),
    Field("email", _PERSONAL, "a person's mail address"),
    Field(
        name="erased",
        sensitivity=_PUBLIC,
        meaning="what was erased: values of requests as record:entry:path, slices of entities as "
        "entities:digest",
        shape=_TEXTS,
    ),
    Field("expected_id", _PUBLIC, "public id of a key that may join without a token"),
    Field(name="first_n", sensitivity=_PUBLIC, meaning="first spool row concerned", shape=_NUMBER),
    Field(
        name="former_spools",
        sensitivity=_PUBLIC,
        meaning="earlier spools that the origin still keeps, as id:number of the last row",
        shape=_TEXTS,
    ),
    Field(
        name="generation",
        sensitivity=_PUBLIC,
        meaning="renewal generation of the certificate",
        shape=_NUMBER,
    ),
    Field("group", _PUBLIC, "name of the group"),
    Field("head_hash", _PUBLIC, "hash of the signed head concerned"),
    Field(
        name="head_size",
        sensitivity=_PUBLIC,
        meaning="records that the signed head covers",
        shape=_NUMBER,
    ),
    Field("held_event_id", _PUBLIC, "the held record"),
    Field(
        name="inventory_generation",
        sensitivity=_PUBLIC,
        meaning="generation of the Connector's inventory",
        shape=_NUMBER,
    ),
    Field("identity_id", _PUBLIC, "public id of the link between an account and a person"),
    Field("key_digest", _PUBLIC, "SHA-256 of the public key concerned"),
    Field("issuer", _PUBLIC, "issuer of the identity provider"),
    Field("key_purpose", _PUBLIC, "what the key may sign"),
    Field(name="labels", sensitivity=_PUBLIC, meaning="access labels, as key=value", shape=_TEXTS),
    Field(
        "lane",
        _PUBLIC,
        "the last lane: `in_tunnel`, `direct`, or `unknown` if it was never reported",
    ),
    Field(name="last_n", sensitivity=_PUBLIC, meaning="last spool row concerned", shape=_NUMBER),
    Field("leader_id", _PUBLIC, "the Authority that leads, as far as the origin knows"),
    Field(
        name="local_uid",
        sensitivity=_PUBLIC,
        meaning="uid of the process that asked",
        shape=_NUMBER,
    ),
    Field("lost_hash", _PUBLIC, "hash of the signed head that is abandoned"),
    Field(
        name="lost_size",
        sensitivity=_PUBLIC,
        meaning="records that the abandoned head covers",
        shape=_NUMBER,
    ),
    Field(
        name="shared_size",
        sensitivity=_PUBLIC,
        meaning="records known to be in both the abandoned and this history",
        shape=_NUMBER,
    ),
    Field(
        name="migrations",
        sensitivity=_PUBLIC,
        meaning="names of the migrations applied",
        shape=_TEXTS,
    ),
    Field("name", _PERSONAL, "a person's name"),
    Field("note", _PERSONAL, "what a person wrote about it"),
    Field("not_after", _PUBLIC, "when the certificate expires"),
    Field("password", _SECRET, "never recorded"),
    Field("person_id", _PUBLIC, "the person concerned"),
    Field(
        name="plugins",
        sensitivity=_PUBLIC,
        meaning="name, version and digest of each plug-in",
        shape=_TEXTS,
    ),
    Field("policy_digest", _PUBLIC, "SHA-256 of the policy text"),
    Field("previous_digest", _PUBLIC, "SHA-256 of the previous value in force"),
    Field("private_key", _SECRET, "never recorded"),
    Field("profile", _PUBLIC, "which certificate authority or profile signed"),
    Field("proposal_id", _PUBLIC, "the proposed policy concerned"),
    Field("proposer", _PUBLIC, "who proposed it: the id of a person, or `local:<uid>`"),
    Field(
        "proxy_decision",
        _PUBLIC,
        "what the Proxy decided on the same request by the policy alone: `allow`, `deny` or "
        "`error`; absent where a record of its own says `allow`",
    ),
    Field("proxy_decision_id", _PUBLIC, "the Proxy's own decision on the same request"),
    Field("proxy_entities_digest", _PUBLIC, "the entities that the Proxy decided over"),
    Field("proxy_id", _PUBLIC, "the Proxy concerned"),
    Field(
        name="proxy_policies",
        sensitivity=_PUBLIC,
        meaning="the `@id`s of the policies by which the Proxy decided",
        shape=_TEXTS,
    ),
    Field(
        name="proxy_policy_version",
        sensitivity=_PUBLIC,
        meaning="version of the policy by which the Proxy decided",
        shape=_NUMBER,
    ),
    Field("record_digest", _PUBLIC, "SHA-256 of the record's bytes as they arrived"),
    Field("recording_sha256", _PUBLIC, "digest of the recording"),
    Field("replay_digest", _PUBLIC, "SHA-256 of the replay that the policy was bound to"),
    Field(
        name="replay_first",
        sensitivity=_PUBLIC,
        meaning="first record that was replayed",
        shape=_NUMBER,
    ),
    Field(
        name="replay_last",
        sensitivity=_PUBLIC,
        meaning="last record that was replayed",
        shape=_NUMBER,
    ),
    Field("request_sha256", _PUBLIC, "digest of the person's signed session request"),
    Field("resource_identity", _PUBLIC, "which of the resources that have had this id"),
    Field(
        name="resources",
        sensitivity=_PUBLIC,
        meaning="ids of the resources concerned",
        shape=_TEXTS,
    ),
    Field("role", _PUBLIC, "role of the node or person"),
    Field("row_digest", _PUBLIC, "SHA-256 of the row this record puts in force"),
    Field(
        "second_factor",
        _PUBLIC,
        "what a person proved besides the password: `totp`, `key` or `recovery`",
    ),
    Field(
        name="sensitive",
        sensitivity=_PUBLIC,
        meaning="why a change of the policy is security-sensitive, as policy:reason",
        shape=_TEXTS,
    ),
    Field("serial", _PUBLIC, "serial number of the certificate, in hex"),
    Field(
        "sign_in_flow", _PUBLIC, "how the person signed in: `code`, `device`, `token` or `local`"
    ),
    Field("sign_in_id", _PUBLIC, "public id of the sign-in"),
    Field("signed_digest", _PUBLIC, "SHA-256 of the row that the newest signed record names"),
    Field("since", _PUBLIC, "start of the time concerned"),
    Field("source_address", _PERSONAL, "address of the peer, as the Proxy reports it"),
    Field("spool_id", _PUBLIC, "the spool concerned"),
    Field("subject", _PUBLIC, "the row concerned, as sort and id"),
    Field("subject_at_issuer", _PERSONAL, "the account's subject at its issuer"),
    Field("token", _SECRET, "never recorded"),
    Field("token_id", _PUBLIC, "public id of the join token"),
    Field(
        name="ttl_seconds", sensitivity=_PUBLIC, meaning="how long it may be used", shape=_NUMBER
    ),
    Field("until", _PUBLIC, "end of the time concerned"),
    Field(
        name="validated",
        sensitivity=_PUBLIC,
        meaning="whether strict validation passed",
        shape=_FLAG,
    ),
    Field("version", _PUBLIC, "version of the program"),
)
"""Every field that any event's details may have."""


def _event(number: int, name: str, letter: str, meaning: str, fields: str = "") -> Event:
    """One of ours: the class follows from the first digit of the number."""
    event_class = list(EventClass)[number // 1000 - 1]
    known = tuple(DETAILS[word] for word in fields.split())
    return Event(
        name=name,
        code=f"SVC{number}{letter}",
        event_class=event_class,
        severity=_LETTERS[letter],
        meaning=meaning,
        fields=known,
    )


_CERTIFICATE = "serial certificate_sha256 not_after profile generation"
_TRAFFIC = "bytes_up bytes_down duration_ms lane proxy_id connector_id"

_OPENING = (
    "proxy_id connector_id request_sha256 certificate_sha256 source_address proxy_decision_id "
    "proxy_decision proxy_policies proxy_policy_version proxy_entities_digest"
)

SESSION_START = _event(1001, "session.start", "I", "a session was granted", _OPENING)
SESSION_END = _event(1002, "session.end", "I", "a session ended", _TRAFFIC)
SESSION_ABANDONED = _event(
    1003, "session.abandoned", "W", "no Proxy claims the session any more", _TRAFFIC
)
SESSION_REFUSED = _event(1004, "session.refused", "W", "a session was not granted", _OPENING)
DECIDED = frozenset({SESSION_START.name, SESSION_REFUSED.name})
"""Events of Authority's own decisions: the entities it decided over are kept beside the log."""

SESSION_MISMATCH = _event(
    1005,
    "session.mismatch",
    "W",
    "what a Proxy recorded of a session's requests is not what its Connector passed on, or (reason "
    "`wrong_allow`) not what the policy allows",
    _TRAFFIC,
)
SESSION_UNCONFIRMED = _event(
    1006,
    "session.unconfirmed",
    "W",
    "a session whose requests are decided is over, and its Connector's last checkpoint, or a "
    "record that a checkpoint tells of, never came",
    _TRAFFIC,
)
PROXY_DISTRUSTED = _event(
    1007,
    "proxy.distrusted",
    "E",
    "a Proxy opens no sessions whose requests it would decide: until it is revoked for "
    "`session_mismatch`, for a day for `sessions_unconfirmed`",
    "proxy_id",
)
SESSION_ASKED_END = _event(
    1008,
    "session.end_asked",
    "I",
    "an operator, the session's own person, or the end of an approval ended a session",
    "person_id proxy_id connector_id note local_uid",
)
REQUEST_DECISION = _event(
    1010,
    "request.decision",
    "I",
    "a request in a session was decided; or, without `request`, a Proxy allowed a session by the "
    "policy alone that was then granted",
    "proxy_id source_address",
)
REFUSALS_SUMMARY = _event(
    1011,
    "refusals.summary",
    "W",
    "one caller's refusals in a minute, which have no record each; the reason names the budget",
    "count since until proxy_id person_id connector_id",
)
REQUEST_BATCH = _event(
    1012,
    "request.batch",
    "I",
    "requests were decided; each is shown as a `request.decision` of its own",
    "proxy_id",
)
RECORDING_DELIVERED = _event(
    1020,
    "recording.delivered",
    "I",
    "a recording reached its store",
    "recording_sha256 connector_id",
)
ACCESS_REQUEST = _event(
    1040,
    "access.request",
    "I",
    "a person asked for access that nobody has by the policy alone",
    "access_request asked_reason asked_secs asked_uses text_sha256 ends_at row_digest proxy_id",
)
ACCESS_APPROVE = _event(
    1041,
    "access.approve",
    "I",
    "another person approved a request for access",
    "access_request person_id certificate_sha256 document_sha256 text_sha256 ends_at row_digest "
    "proxy_id",
)
ACCESS_DENY = _event(
    1042,
    "access.deny",
    "I",
    "another person denied a request for access",
    "access_request person_id certificate_sha256 document_sha256 row_digest proxy_id",
)
ACCESS_WITHDRAW = _event(
    1043,
    "access.withdraw",
    "I",
    "a person withdrew a request for access, or gave up what was approved",
    "access_request row_digest proxy_id",
)
ACCESS_USE = _event(
    1044,
    "access.use",
    "I",
    "a request inside a session, or requests of its sort, passed by an approved request for access",
    "access_request approved_by approved_until text_sha256 row_digest proxy_id",
)

TUNNEL_REGISTERED = _event(
    1030,
    "tunnel.registered",
    "I",
    "a Connector registered a tunnel",
    "proxy_id connector_id resources inventory_generation",
)
TUNNEL_REFUSED = _event(
    1031,
    "tunnel.refused",
    "W",
    "a Connector's registration was refused",
    "proxy_id connector_id resources source_address",
)
TUNNEL_ENDED = _event(
    1032, "tunnel.ended", "I", "a tunnel ended", "proxy_id connector_id count duration_ms"
)

TOKEN_CREATE = _event(
    2001,
    "token.create",
    "I",
    "a one-use join token was created",
    "token_id token role ttl_seconds person_id row_digest local_uid",
)
NODE_ENROLL = _event(
    2002,
    "node.enroll",
    "I",
    "a node joined",
    f"{_CERTIFICATE} token_id token expected_id role key_digest source_address row_digest",
)
ENROLL_REFUSED = _event(
    2003,
    "enroll.refused",
    "W",
    "a join with a known token was refused",
    "token_id token expected_id role source_address",
)
NODE_RENEW = _event(
    2004, "node.renew", "I", "a node's certificate was renewed", f"{_CERTIFICATE} role row_digest"
)
RENEW_REFUSED = _event(
    2005,
    "renew.refused",
    "W",
    "a renewal was refused",
    "serial generation role person_id source_address",
)
NODE_REVOKE = _event(
    2006, "node.revoke", "I", "a node was revoked", "serial role row_digest local_uid"
)
KEY_EXPECT = _event(
    2007,
    "key.expect",
    "I",
    "a key may join once without a token",
    "expected_id key_digest role ttl_seconds row_digest local_uid",
)
KEY_WITHDRAW = _event(
    2008,
    "key.withdraw",
    "I",
    "a key may no longer join without a token",
    "expected_id key_digest role row_digest local_uid",
)
TOKEN_REVOKE = _event(
    2009,
    "token.revoke",
    "I",
    "a join token was withdrawn",
    "token_id role person_id note row_digest local_uid",
)
CREDENTIAL_ISSUE = _event(
    2010,
    "credential.issue",
    "I",
    "the Authority issued a credential",
    f"{_CERTIFICATE} person_id role private_key acts_as connector_id",
)
IDENTITY_REFUSED = _event(
    2011,
    "identity.refused",
    "W",
    "a target was not told who makes a request, and did not get it",
    "person_id connector_id",
)
PERSON_ADD = _event(
    2020,
    "person.add",
    "I",
    "a person was added",
    "person_id name email row_digest local_uid password",
)
PERSON_ENROLL = _event(
    2021,
    "person.enroll",
    "I",
    "a person exchanged a token for a certificate",
    f"{_CERTIFICATE} person_id token_id token source_address row_digest",
)
PERSON_RENEW = _event(
    2022,
    "person.renew",
    "I",
    "a person's certificate was renewed",
    f"{_CERTIFICATE} person_id row_digest",
)
PERSON_REVOKE = _event(
    2023, "person.revoke", "I", "a person was revoked", "person_id note row_digest local_uid"
)
USER_FORGET_NAME = _event(
    2024, "user.forget_name", "I", "a person's name was erased", "person_id row_digest local_uid"
)
PERSON_DISABLE = _event(
    2025,
    "person.disable",
    "I",
    "a person was disabled",
    "person_id note row_digest local_uid",
)
PERSON_ENABLE = _event(
    2026,
    "person.enable",
    "I",
    "a disabled person was enabled again",
    "person_id note row_digest local_uid",
)
CERTIFICATE_REVOKE = _event(
    2027,
    "certificate.revoke",
    "I",
    "a person's certificate was revoked",
    "person_id serial certificate_sha256 note row_digest local_uid",
)
PERSON_SIGN_IN = _event(
    2050,
    "person.sign_in",
    "I",
    "a person signed in, at the identity provider or with a password that is kept here",
    f"{_CERTIFICATE} person_id sign_in_id identity_id sign_in_flow issuer row_digest",
)
SIGN_IN_REFUSED = _event(
    2051,
    "sign_in.refused",
    "W",
    "a sign-in that had begun was refused",
    "sign_in_flow issuer subject_at_issuer person_id key_digest",
)
SIGN_IN_END = _event(
    2052,
    "sign_in.end",
    "I",
    "a person's sign-in ended",
    "person_id sign_in_id certificate_sha256 generation row_digest",
)
IDENTITY_LINK = _event(
    2053,
    "identity.link",
    "I",
    "an account of the identity provider became a person's",
    "person_id identity_id issuer subject_at_issuer row_digest local_uid",
)
IDENTITY_UNLINK = _event(
    2055,
    "identity.unlink",
    "I",
    "an account of the identity provider is nobody's here any more",
    "person_id identity_id issuer note row_digest local_uid",
)
SIGN_IN_RENEW = _event(
    2054,
    "sign_in.renew",
    "I",
    "the provider confirmed a sign-in, and its certificate was renewed",
    f"{_CERTIFICATE} person_id sign_in_id row_digest",
)
ACCOUNT_CODE = _event(
    2060,
    "account.code",
    "I",
    "a person was given a one-time code to set a password and a second factor",
    "person_id ttl_seconds note row_digest local_uid",
)
ACCOUNT_SET = _event(
    2061,
    "account.set",
    "I",
    "a person set a password and a second factor",
    "person_id second_factor key_digest row_digest",
)
ACCOUNT_USE = _event(
    2062,
    "account.use",
    "I",
    "a passkey, or a second factor together with the password, was accepted",
    "person_id second_factor row_digest",
)
ACCOUNT_PASSKEY = _event(
    2064,
    "account.passkey",
    "I",
    "a person added a passkey to their account",
    "person_id key_digest row_digest",
)
ACCOUNT_PASSKEY_REMOVE = _event(
    2065,
    "account.passkey_remove",
    "I",
    "a passkey of a person was removed",
    "person_id note row_digest local_uid",
)
ACCOUNT_REMOVE = _event(
    2063,
    "account.remove",
    "I",
    "password, second factors and codes of a person were removed",
    "person_id note row_digest local_uid",
)
AGENT_ADD = _event(
    2070,
    "agent.add",
    "I",
    "an agent was added",
    "agent_id agent_name person_id issuer row_digest local_uid",
)
AGENT_ENROLL = _event(
    2071,
    "agent.enroll",
    "I",
    "an agent got a certificate, by a token or by an assertion of its platform",
    f"{_CERTIFICATE} agent_id person_id token_id issuer row_digest",
)
AGENT_RENEW = _event(
    2072,
    "agent.renew",
    "I",
    "an agent's certificate was renewed",
    f"{_CERTIFICATE} agent_id person_id row_digest",
)
AGENT_REVOKE = _event(
    2073,
    "agent.revoke",
    "I",
    "an agent was revoked",
    "agent_id person_id generation note row_digest local_uid",
)
AGENT_DELEGATE = _event(
    2074,
    "agent.delegate",
    "I",
    "an agent may act for a person",
    "agent_id delegation_id person_id actions not_after row_digest local_uid",
)
GROUP_ADD = _event(2030, "group.add", "I", "a group was added", "group row_digest local_uid")
GROUP_JOIN = _event(
    2031, "group.join", "I", "a person joined a group", "group person_id note row_digest local_uid"
)
GROUP_LEAVE = _event(
    2032, "group.leave", "I", "a person left a group", "group person_id note row_digest local_uid"
)
GROUP_REMOVE = _event(
    2033, "group.remove", "I", "a group was removed", "group note row_digest local_uid"
)

POLICY_PROPOSE = _event(
    3001,
    "policy.propose",
    "I",
    "a policy was proposed",
    "policy_digest previous_digest note validated row_digest local_uid proposal_id proposer"
    " sensitive replay_digest replay_first replay_last",
)
POLICY_APPROVE = _event(
    3002,
    "policy.approve",
    "I",
    "a policy was approved",
    "policy_digest previous_digest note row_digest local_uid proposal_id certificate_sha256",
)
POLICY_ACTIVATE = _event(
    3003,
    "policy.activate",
    "I",
    "a policy came into force",
    "policy_digest previous_digest note validated row_digest local_uid"
    " replay_digest replay_first replay_last proposal_id proposer approvers sensitive",
)
POLICY_REFUSED = _event(
    3004,
    "policy.refused",
    "W",
    "a policy, or a person's approval of one, was refused",
    "policy_digest note local_uid proposal_id certificate_sha256",
)
POLICY_REJECT = _event(
    3007,
    "policy.reject",
    "I",
    "a proposed policy was rejected, or withdrawn by who proposed it",
    "policy_digest note row_digest local_uid proposal_id certificate_sha256",
)
STATE_UNSIGNED = _event(
    3005,
    "state.unsigned",
    "E",
    "a stored row was not applied because no signed record covers it",
    "row_digest policy_digest subject signed_digest",
)
STATE_ADOPT = _event(
    3006,
    "state.adopt",
    "W",
    "rows from before signed records were adopted unchanged",
    "count local_uid",
)
SCOPE_SET = _event(
    3010, "scope.set", "I", "a scope was set", "change previous_digest row_digest local_uid"
)
EPOCH_ACTIVATE = _event(
    3011, "epoch.activate", "I", "an epoch came into force", "previous_digest row_digest local_uid"
)
ROOT_PREPARE = _event(
    3020,
    "root.prepare",
    "I",
    "a new cluster root was prepared",
    "certificate_sha256 key_digest row_digest",
)
ROOT_ACK = _event(3021, "root.ack", "I", "a node accepted the new root", "certificate_sha256 role")
ROOT_ACTIVATE = _event(
    3022, "root.activate", "I", "the new root came into force", "certificate_sha256 row_digest"
)
ROOT_CANCEL = _event(
    3023, "root.cancel", "I", "the new root was cancelled", "certificate_sha256 row_digest"
)
CA_ACTIVATE = _event(
    3024,
    "ca.activate",
    "I",
    "a revision of an issuing CA came into force",
    "key_purpose generation certificate_sha256 row_digest",
)
RESOURCE_ADD = _event(
    3030,
    "resource.add",
    "I",
    "a resource was added to the catalog",
    "labels connector_id resource_identity assignment_revision row_digest local_uid",
)
RESOURCE_CHANGE = _event(
    3031,
    "resource.change",
    "I",
    "a resource was changed",
    "change labels connector_id resource_identity assignment_revision previous_digest row_digest"
    " local_uid",
)
RESOURCE_REMOVE = _event(
    3032,
    "resource.remove",
    "I",
    "a resource was removed",
    "connector_id resource_identity row_digest local_uid",
)

ROLE_START = _event(4001, "role.start", "I", "a role started", "role version plugins")
ROLE_STOP = _event(4002, "role.stop", "I", "a role stopped", "role version")
STORE_MIGRATE = _event(4003, "store.migrate", "I", "migrations were applied", "migrations version")
STORE_RESTORED = _event(
    4004,
    "store.restored",
    "W",
    "an older store was restored on purpose",
    "head_hash head_size lost_hash lost_size shared_size until note local_uid",
)
OPERATOR_REFUSED = _event(
    4005, "operator.refused", "W", "an operator's command was refused", "local_uid source_address"
)
OPERATOR_READ = _event(
    4006, "operator.read", "I", "an operator read records of others", "count local_uid"
)
OPERATOR_BREAK_GLASS = _event(
    4007,
    "operator.break_glass",
    "W",
    "a break-glass principal did what the policy, or the lack of approvals, did not let anybody do",
    "local_uid policy_digest",
)
AUDIT_KEY = _event(
    4010,
    "audit.key",
    "I",
    "a key may sign records from now on",
    "key_digest key_purpose certificate_sha256 row_digest",
)
AUDIT_HELD = _event(
    4011,
    "audit.held",
    "E",
    "queued records of an origin were held back",
    "held_event_id spool_id first_n last_n count",
)
AUDIT_RELEASED = _event(
    4012,
    "audit.released",
    "I",
    "a held record was released",
    "held_event_id spool_id first_n record_digest note",
)
AUDIT_GAP = _event(
    4013, "audit.gap", "E", "records of an origin are missing", "spool_id first_n last_n count"
)
AUDIT_ERASED = _event(
    4014,
    "audit.erased",
    "I",
    "personal values that belong to records were erased",
    "count person_id erased since until local_uid",
)
REQUEST_ERASED = _event(
    4018,
    "audit.request.erased",
    "I",
    "a personal value was erased from the record of a request",
    "erased note local_uid",
)
ERASING = frozenset({AUDIT_ERASED.name, REQUEST_ERASED.name})
"""Events whose ``erased`` names what is missing beside the log."""

AUDIT_FILLED = _event(
    4015,
    "audit.filled",
    "I",
    "missing records have arrived",
    "spool_id first_n last_n count",
)
AUDIT_DISCARDED = _event(
    4016,
    "audit.discarded",
    "W",
    "a held record was discarded",
    "held_event_id spool_id first_n record_digest note",
)
AUDIT_CUT = _event(
    4017,
    "audit.cut",
    "W",
    "records that did not verify were removed from the log on purpose",
    "first_n last_n count head_size note local_uid",
)
SPOOL_OPEN = _event(
    4020, "spool.open", "I", "an origin opened a new spool", "spool_id key_digest former_spools"
)
SPOOL_CLOSE = _event(
    4021,
    "spool.close",
    "I",
    "an origin closed its spool; this is its last row",
    "spool_id last_n",
)
AUTHORITY_STANDBY = _event(
    4030,
    "authority.standby",
    "I",
    "an Authority is a standby for the leader",
    "leader_id version",
)
AUTHORITY_DOUBT = _event(
    4031,
    "authority.doubt",
    "E",
    "the state that a standby follows does not verify",
    "leader_id",
)

CATALOGUE: tuple[Event, ...] = tuple(
    sorted((e for e in globals().values() if isinstance(e, Event)), key=lambda event: event.code)
)
"""Every event of ours, by code."""

BY_NAME: Mapping[str, Event] = MappingProxyType({event.name: event for event in CATALOGUE})


KIND_CODES: Mapping[Severity, str] = MappingProxyType(
    {Severity.INFO: "SVC1900I", Severity.WARNING: "SVC1901W", Severity.ERROR: "SVC1902E"}
)
"""The codes of events that resource kinds bring: by severity, since their names tell them apart."""


def is_our_group(word: str) -> bool:
    """Whether an event of ours begins with this word."""
    return any(name.startswith(f"{word}.") for name in BY_NAME)


def check_catalogue(
    events: Iterable[Event] = CATALOGUE,
    facts: Iterable[AttributeTerm] = (),
    actions: Iterable[ActionTerm] = (),
) -> None:
    """Refuse a catalogue that leaves anything unclassified or says a thing twice.

    Called at start by ``compose`` with the vocabulary's facts and actions.  The events of
    resource kinds are looked at as each is loaded: ``svc.audit.log.kind_events``.  Pure.

    Raises:
        PluginError: reason ``audit_unclassified``; the text names every fault.
    """
    known = list(facts)
    names = {fact.name for fact in known}
    faults = [*event_faults(list(events)), *_fact_faults("context", known)]
    for action in actions:
        missing = sorted(set(action.context) - names)
        faults += [f"{action.name}: context fact {name} is not classified" for name in missing]
    if faults:
        raise PluginError("audit catalogue: " + "; ".join(faults), reason="audit_unclassified")


def event_faults(events: list[Event]) -> list[str]:
    """What is wrong with these events, of each and among them."""
    faults = [f"{name}: declared twice" for name in _doubled([event.name for event in events])]
    faults += [f"{code}: used twice" for code in _doubled(_own_codes(events))]
    meanings: dict[str, Field] = {}
    for event in events:
        if not _NAME.match(event.name):
            faults.append(f"{event.name!r}: not a dotted lower-case name")
        if not _CODE.match(event.code) or _LETTERS[event.code[-1]] is not event.severity:
            faults.append(f"{event.name}: code {event.code!r} does not fit its severity")
        faults += _field_faults(event.name, list(event.fields))
        for field in event.fields:
            if meanings.setdefault(field.name, field) != field:
                faults.append(f"{event.name}: {field.name} means something else elsewhere")
    return faults


def _own_codes(events: list[Event]) -> list[str]:
    return [event.code for event in events if event.code not in KIND_CODES.values()]


def _field_faults(where: str, fields: list[Field]) -> list[str]:
    faults = [f"{where}: {name} declared twice" for name in _doubled([f.name for f in fields])]
    for field in fields:
        if not _FIELD_NAME.match(field.name):
            faults.append(f"{where}: {field.name!r} is not a field name")
        if field.sensitivity not in _SENSITIVITIES:
            faults.append(f"{where}: {field.name} is neither public, personal nor secret")
        if field.shape not in _SHAPES:
            faults.append(f"{where}: {field.name} has no shape")
    return faults


def _fact_faults(where: str, facts: Iterable[AttributeTerm]) -> list[str]:
    faults: list[str] = []
    for fact in facts:
        if fact.classified not in ("public", "personal"):
            faults.append(f"{where}: {fact.name} is neither public nor personal")
        if isinstance(fact.type, tuple):
            faults += _fact_faults(f"{where}.{fact.name}", fact.type)
    return faults


def _doubled(words: list[str]) -> list[str]:
    return sorted({word for word in words if words.count(word) > 1})
