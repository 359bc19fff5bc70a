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

CATALOGUE_VERSION = 13

_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+\Z")
_FIELD_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_CODE = re.compile(r"SVC[0-9]{4}[IWE]\Z")
_LETTERS = {"I": Severity.INFO, "W": Severity.WARNING, "E": Severity.ERROR}
_SENSITIVITIES, _SHAPES = frozenset(Sensitivity), frozenset(Shape)


def _public(name: str, meaning: str, shape: Shape = Shape.TEXT) -> Field:
    return Field(name=name, sensitivity=Sensitivity.PUBLIC, meaning=meaning, shape=shape)


def _number(name: str, meaning: str) -> Field:
    return _public(name, meaning, Shape.NUMBER)


def _texts(name: str, meaning: str) -> Field:
    return _public(name, meaning, Shape.TEXTS)


def _flag(name: str, meaning: str) -> Field:
    return _public(name, meaning, Shape.FLAG)


def _personal(name: str, meaning: str) -> Field:
    return Field(name, Sensitivity.PERSONAL, meaning)


def _secret(name: str, meaning: str) -> Field:
    return Field(name, Sensitivity.SECRET, meaning)


def _by_name(*fields: Field) -> Mapping[str, Field]:
    return MappingProxyType({field.name: field for field in fields})


DETAILS: Mapping[str, Field] = _by_name(
    _public("access_request", "id of the request for access"),
    _texts("actions", "what may be done in a person's name"),
    _public("agent_id", "the agent concerned"),
    _public("agent_name", "name of the agent"),
    _public("delegation_id", "public id of a delegation"),
    _public("acts_as", "the person that another one's requests are made as"),
    _texts("approvers", "ids of the people whose approvals counted"),
    _number("assignment_revision", "how often the resource was assigned"),
    _number("bytes_down", "bytes from the target to the client"),
    _number("bytes_up", "bytes from the client to the target"),
    _public("certificate_sha256", "digest of the certificate concerned"),
    _texts("change", "names of the fields that changed"),
    _public("config_sha256", "SHA-256 of the configuration file"),
    _public("connector_id", "the Connector concerned"),
    _public("approved_by", "the person who approved a request for access"),
    _number("approved_until", "when an approval ends, in seconds since the epoch"),
    _personal("asked_reason", "why a person asked for access, in their own words"),
    _number("asked_secs", "for how long access was asked for, in seconds"),
    _number("asked_uses", "how many sessions access was asked for; absent: any number"),
    _personal("text_sha256", "SHA-256, in hex, of the exact text that an approval is for"),
    _public("ends_at", "when it ends"),
    _number("epoch", "epoch of the distribution root concerned"),
    _number("material_revision", "revision of the key set concerned"),
    _texts("owners", "names of the Authorities concerned"),
    _public("asked_by", "the operator who asked, on the host of the Authority that passed it on"),
    _number("count", "how many"),
    _number("duration_ms", "how long it lasted, in milliseconds"),
    _public("document_sha256", "SHA-256 of the document that an approver was shown"),
    _personal("email", "a person's mail address"),
    _texts(
        "erased",
        "what was erased: values of requests as record:entry:path, slices of entities as "
        "entities:digest",
    ),
    _public("expected_id", "public id of a key that may join without a token"),
    _number("first_n", "first spool row concerned"),
    _texts(
        "former_spools", "earlier spools that the origin still keeps, as id:number of the last row"
    ),
    _number("generation", "renewal generation of the certificate"),
    _public("group", "name of the group"),
    _public("head_hash", "hash of the signed head concerned"),
    _number("head_size", "records that the signed head covers"),
    _public("held_event_id", "the held record"),
    _number("inventory_generation", "generation of the Connector's inventory"),
    _public("identity_id", "public id of the link between an account and a person"),
    _public("key_id", "key id of the SSH certificate: names the session and the person"),
    _public("key_digest", "SHA-256 of the public key concerned"),
    _public("issuer", "issuer of the identity provider"),
    _public("key_purpose", "what the key may sign"),
    _texts("keys", "names of the configuration keys that changed"),
    _texts("labels", "access labels, as key=value"),
    _public("lane", "the last lane: `in_tunnel`, `direct`, or `unknown` if it was never reported"),
    _number("last_n", "last spool row concerned"),
    _public("leader_id", "the Authority that leads, as far as the origin knows"),
    _number("local_uid", "uid of the process that asked"),
    _public("lost_hash", "hash of the signed head that is abandoned"),
    _number("lost_size", "records that the abandoned head covers"),
    _number("shared_size", "records known to be in both the abandoned and this history"),
    _texts("kinds", "the resource kinds concerned"),
    _texts("connectors", "names or ids of the Connectors concerned"),
    _texts("match_labels", "labels that a Connector must give, as key=value"),
    _public("id_prefix", "what the ids of the resources concerned begin with"),
    _texts("migrations", "names of the migrations applied"),
    _personal("name", "a person's name"),
    _personal("note", "what a person wrote about it"),
    _public("not_after", "when the certificate expires"),
    _secret("password", "never recorded"),
    _public("person_id", "the person concerned"),
    _texts("plugins", "name, version and digest of each plug-in"),
    _public("policy_digest", "SHA-256 of the policy text"),
    _public("previous_digest", "SHA-256 of the previous value in force"),
    _secret("private_key", "never recorded"),
    _public("profile", "which certificate authority or profile signed"),
    _public("proposal_id", "the proposed policy concerned"),
    _public("proposer", "who proposed it: the id of a person, or `local:<uid>`"),
    _public(
        "proxy_decision",
        "what the Proxy decided on the same request by the policy alone: `allow`, `deny` or "
        "`error`; absent where a record of its own says `allow`",
    ),
    _public("proxy_decision_id", "the Proxy's own decision on the same request"),
    _public("proxy_entities_digest", "the entities that the Proxy decided over"),
    _public("proxy_id", "the Proxy concerned"),
    _public("egress_proxy_id", "the Proxy that a session was relayed to; absent where it was not"),
    _texts("proxy_policies", "the `@id`s of the policies by which the Proxy decided"),
    _number("proxy_policy_version", "version of the policy by which the Proxy decided"),
    _public("record_digest", "SHA-256 of the record's bytes as they arrived"),
    _number("recording_bytes", "size of what was recorded"),
    _public("recording_id", "the recording concerned: its session's uid and a number"),
    _public("recording_sha256", "SHA-256 of what was recorded, as `recordings export` writes it"),
    _public(
        "recording_state",
        "how far the recording has come: `receiving`, `complete`, `cut_short`, `damaged`, `lost`",
    ),
    _public("replay_digest", "SHA-256 of the replay that the policy was bound to"),
    _number("replay_first", "first record that was replayed"),
    _number("replay_last", "last record that was replayed"),
    _public("request_sha256", "digest of the person's signed session request"),
    _public("resource_identity", "which of the resources that have had this id"),
    _texts("onward_modes", "the ways to sign on at a target that are allowed"),
    _public("onward_auth", "how the Connector signs on at the target"),
    _texts("resources", "ids of the resources concerned"),
    _texts("rights", "what the session may do at its Connector"),
    _texts(
        "rights_denied",
        "what the session may not do there, with the policies that forbid it, if any",
    ),
    _public("role", "role of the node or person"),
    _public("row_digest", "SHA-256 of the row this record puts in force"),
    _public(
        "second_factor", "what a person proved besides the password: `totp`, `key` or `recovery`"
    ),
    _public("scope", "name of the discovery scope"),
    _texts("sensitive", "why a change of the policy is security-sensitive, as policy:reason"),
    _public("serial", "serial number of the certificate, in hex"),
    _public("sign_in_flow", "how the person signed in: `code`, `device`, `token` or `local`"),
    _public("sign_in_id", "public id of the sign-in"),
    _public("sealed_sha256", "SHA-256 of the recording's sealed file"),
    _public("signed_digest", "SHA-256 of the row that the newest signed record names"),
    _public("since", "start of the time concerned"),
    _personal("source_address", "address of the peer, as the Proxy reports it"),
    _public("spool_id", "the spool concerned"),
    _public("subject", "the row concerned, as sort and id"),
    _personal("subject_at_issuer", "the account's subject at its issuer"),
    _secret("token", "never recorded"),
    _public("token_id", "public id of the join token"),
    _number("ttl_seconds", "how long it may be used"),
    _public("until", "end of the time concerned"),
    _texts("used", "rights that a session used, or was denied, each with how often"),
    _flag("validated", "whether strict validation passed"),
    _public("version", "version of the program"),
)
"""Every field that any event's details may have."""


def _event(code: str, name: str, meaning: str, fields: str = "") -> Event:
    """One of ours: the class follows from the code's first digit, the severity from its letter."""
    return Event(
        name=name,
        code=code,
        event_class=list(EventClass)[int(code[3]) - 1],
        severity=_LETTERS[code[-1]],
        meaning=meaning,
        fields=tuple(DETAILS[word] for word in fields.split()),
    )


_CERTIFICATE = "serial certificate_sha256 not_after profile generation"
_TRAFFIC = "bytes_up bytes_down duration_ms lane proxy_id connector_id"

_RECORDING = (
    "recording_id recording_state recording_sha256 sealed_sha256 recording_bytes duration_ms "
    "connector_id person_id"
)

_OPENING = (
    "proxy_id connector_id request_sha256 certificate_sha256 source_address proxy_decision_id "
    "proxy_decision proxy_policies proxy_policy_version proxy_entities_digest rights rights_denied "
    "egress_proxy_id"
)

SESSION_START = _event("SVC1001I", "session.start", "a session was granted", _OPENING)
SESSION_END = _event("SVC1002I", "session.end", "a session ended", _TRAFFIC)
SESSION_ABANDONED = _event(
    "SVC1003W", "session.abandoned", "no Proxy claims the session any more", _TRAFFIC
)
SESSION_REFUSED = _event("SVC1004W", "session.refused", "a session was not granted", _OPENING)
DECIDED = frozenset({SESSION_START.name, SESSION_REFUSED.name})
"""Events of Authority's own decisions: the entities it decided over are kept beside the log."""

SESSION_MISMATCH = _event(
    "SVC1005W",
    "session.mismatch",
    "what a Proxy recorded of a session's requests is not what its Connector passed on, or (reason "
    "`wrong_allow`) not what the policy allows",
    f"{_TRAFFIC} egress_proxy_id",
)
SESSION_UNCONFIRMED = _event(
    "SVC1006W",
    "session.unconfirmed",
    "a session whose requests are decided is over, and its Connector's last checkpoint, or a "
    "record that a checkpoint tells of, never came",
    f"{_TRAFFIC} egress_proxy_id",
)
PROXY_DISTRUSTED = _event(
    "SVC1007E",
    "proxy.distrusted",
    "a Proxy opens no sessions whose requests it would decide: until it is revoked for "
    "`session_mismatch`, for a day for `sessions_unconfirmed`",
    "proxy_id",
)
SESSION_ASKED_END = _event(
    "SVC1008I",
    "session.end_asked",
    "an operator, the session's own person, or the end of an approval ended a session",
    "person_id proxy_id connector_id note local_uid",
)
SESSION_USE = _event(
    "SVC1009I",
    "session.use",
    "what a session did with its rights, as its Connector counted when it was over",
    "person_id used",
)
REQUEST_DECISION = _event(
    "SVC1010I",
    "request.decision",
    "a request in a session was decided; or, without `request`, a Proxy allowed a session by the "
    "policy alone that was then granted",
    "proxy_id source_address",
)
REFUSALS_SUMMARY = _event(
    "SVC1011W",
    "refusals.summary",
    "one caller's refusals in a minute, which have no record each; the reason names the budget, or "
    "is standing_by: an Authority refused them that did not lead, and may write no record",
    "count since until proxy_id person_id connector_id",
)
REQUEST_BATCH = _event(
    "SVC1012I",
    "request.batch",
    "requests were decided; each is shown as a `request.decision` of its own",
    "proxy_id",
)
RECORDING_DELIVERED = _event(
    "SVC1020I",
    "recording.delivered",
    "a recording reached its store: whole, cut short, or damaged",
    _RECORDING,
)
RECORDING_READ = _event(
    "SVC1021I",
    "recording.read",
    "an operator began to read a recording",
    f"{_RECORDING} local_uid",
)
RECORDING_REMOVED = _event(
    "SVC1022W",
    "recording.removed",
    "a recording was removed, by an operator or since it was kept long enough",
    f"{_RECORDING} note local_uid",
)
RECORDING_LOST = _event(
    "SVC1023E",
    "recording.lost",
    "a recording began, and the rest of it did not arrive in time",
    _RECORDING,
)
ACCESS_REQUEST = _event(
    "SVC1040I",
    "access.request",
    "a person asked for access that nobody has by the policy alone",
    "access_request asked_reason asked_secs asked_uses text_sha256 ends_at row_digest proxy_id",
)
ACCESS_APPROVE = _event(
    "SVC1041I",
    "access.approve",
    "another person approved a request for access",
    "access_request person_id certificate_sha256 document_sha256 text_sha256 ends_at row_digest "
    "proxy_id",
)
ACCESS_DENY = _event(
    "SVC1042I",
    "access.deny",
    "another person denied a request for access",
    "access_request person_id certificate_sha256 document_sha256 row_digest proxy_id",
)
ACCESS_WITHDRAW = _event(
    "SVC1043I",
    "access.withdraw",
    "a person withdrew a request for access, or gave up what was approved",
    "access_request row_digest proxy_id",
)
ACCESS_USE = _event(
    "SVC1044I",
    "access.use",
    "a request inside a session, or requests of its sort, passed by an approved request for access",
    "access_request approved_by approved_until text_sha256 row_digest proxy_id",
)

TUNNEL_REGISTERED = _event(
    "SVC1030I",
    "tunnel.registered",
    "a Connector registered a tunnel",
    "proxy_id connector_id resources inventory_generation",
)
TUNNEL_REFUSED = _event(
    "SVC1031W",
    "tunnel.refused",
    "a Connector's registration was refused",
    "proxy_id connector_id resources source_address",
)
TUNNEL_ENDED = _event(
    "SVC1032I", "tunnel.ended", "a tunnel ended", "proxy_id connector_id count duration_ms"
)

TOKEN_CREATE = _event(
    "SVC2001I",
    "token.create",
    "a one-use join token was created",
    "token_id token role ttl_seconds person_id row_digest local_uid",
)
NODE_ENROLL = _event(
    "SVC2002I",
    "node.enroll",
    "a node joined",
    f"{_CERTIFICATE} token_id token expected_id role key_digest source_address row_digest",
)
ENROLL_REFUSED = _event(
    "SVC2003W",
    "enroll.refused",
    "a join with a known token was refused",
    "token_id token expected_id role source_address",
)
NODE_RENEW = _event(
    "SVC2004I", "node.renew", "a node's certificate was renewed", f"{_CERTIFICATE} role row_digest"
)
RENEW_REFUSED = _event(
    "SVC2005W",
    "renew.refused",
    "a renewal was refused",
    "serial generation role person_id source_address",
)
NODE_REVOKE = _event(
    "SVC2006I", "node.revoke", "a node was revoked", "serial role row_digest local_uid"
)
KEY_EXPECT = _event(
    "SVC2007I",
    "key.expect",
    "a key may join once without a token",
    "expected_id key_digest role ttl_seconds row_digest local_uid",
)
KEY_WITHDRAW = _event(
    "SVC2008I",
    "key.withdraw",
    "a key may no longer join without a token",
    "expected_id key_digest role row_digest local_uid",
)
TOKEN_REVOKE = _event(
    "SVC2009I",
    "token.revoke",
    "a join token was withdrawn",
    "token_id role person_id note row_digest local_uid",
)
CREDENTIAL_ISSUE = _event(
    "SVC2010I",
    "credential.issue",
    "the Authority issued a credential",
    f"{_CERTIFICATE} person_id role private_key acts_as connector_id key_id",
)
IDENTITY_REFUSED = _event(
    "SVC2011W",
    "identity.refused",
    "a target was not told who makes a request, and did not get it",
    "person_id connector_id",
)
PERSON_ADD = _event(
    "SVC2020I",
    "person.add",
    "a person was added",
    "person_id name email row_digest local_uid password",
)
PERSON_ENROLL = _event(
    "SVC2021I",
    "person.enroll",
    "a person exchanged a token for a certificate",
    f"{_CERTIFICATE} person_id token_id token source_address row_digest",
)
PERSON_RENEW = _event(
    "SVC2022I",
    "person.renew",
    "a person's certificate was renewed",
    f"{_CERTIFICATE} person_id row_digest",
)
PERSON_REVOKE = _event(
    "SVC2023I", "person.revoke", "a person was revoked", "person_id note row_digest local_uid"
)
USER_FORGET_NAME = _event(
    "SVC2024I", "user.forget_name", "a person's name was erased", "person_id row_digest local_uid"
)
PERSON_DISABLE = _event(
    "SVC2025I", "person.disable", "a person was disabled", "person_id note row_digest local_uid"
)
PERSON_ENABLE = _event(
    "SVC2026I",
    "person.enable",
    "a disabled person was enabled again",
    "person_id note row_digest local_uid",
)
CERTIFICATE_REVOKE = _event(
    "SVC2027I",
    "certificate.revoke",
    "a person's certificate was revoked",
    "person_id serial certificate_sha256 note row_digest local_uid",
)
PERSON_SIGN_IN = _event(
    "SVC2050I",
    "person.sign_in",
    "a person signed in, at the identity provider or with a password that is kept here",
    f"{_CERTIFICATE} person_id sign_in_id identity_id sign_in_flow issuer row_digest",
)
SIGN_IN_REFUSED = _event(
    "SVC2051W",
    "sign_in.refused",
    "a sign-in that had begun was refused",
    "sign_in_flow issuer subject_at_issuer person_id key_digest",
)
SIGN_IN_END = _event(
    "SVC2052I",
    "sign_in.end",
    "a person's sign-in ended",
    "person_id sign_in_id certificate_sha256 generation row_digest",
)
IDENTITY_LINK = _event(
    "SVC2053I",
    "identity.link",
    "an account of the identity provider became a person's",
    "person_id identity_id issuer subject_at_issuer row_digest local_uid",
)
IDENTITY_UNLINK = _event(
    "SVC2055I",
    "identity.unlink",
    "an account of the identity provider is nobody's here any more",
    "person_id identity_id issuer note row_digest local_uid",
)
SIGN_IN_RENEW = _event(
    "SVC2054I",
    "sign_in.renew",
    "the provider confirmed a sign-in, and its certificate was renewed",
    f"{_CERTIFICATE} person_id sign_in_id row_digest",
)
ACCOUNT_CODE = _event(
    "SVC2060I",
    "account.code",
    "a person was given a one-time code to set a password and a second factor",
    "person_id ttl_seconds note row_digest local_uid",
)
ACCOUNT_SET = _event(
    "SVC2061I",
    "account.set",
    "a person set a password and a second factor",
    "person_id second_factor key_digest row_digest",
)
ACCOUNT_USE = _event(
    "SVC2062I",
    "account.use",
    "a passkey, or a second factor together with the password, was accepted",
    "person_id second_factor row_digest",
)
ACCOUNT_PASSKEY = _event(
    "SVC2064I",
    "account.passkey",
    "a person added a passkey to their account",
    "person_id key_digest row_digest",
)
ACCOUNT_PASSKEY_REMOVE = _event(
    "SVC2065I",
    "account.passkey_remove",
    "a passkey of a person was removed",
    "person_id note row_digest local_uid",
)
ACCOUNT_REMOVE = _event(
    "SVC2063I",
    "account.remove",
    "password, second factors and codes of a person were removed",
    "person_id note row_digest local_uid",
)
AGENT_ADD = _event(
    "SVC2070I",
    "agent.add",
    "an agent was added",
    "agent_id agent_name person_id issuer row_digest local_uid",
)
AGENT_ENROLL = _event(
    "SVC2071I",
    "agent.enroll",
    "an agent got a certificate, by a token or by an assertion of its platform",
    f"{_CERTIFICATE} agent_id person_id token_id issuer row_digest",
)
AGENT_RENEW = _event(
    "SVC2072I",
    "agent.renew",
    "an agent's certificate was renewed",
    f"{_CERTIFICATE} agent_id person_id row_digest",
)
AGENT_REVOKE = _event(
    "SVC2073I",
    "agent.revoke",
    "an agent was revoked",
    "agent_id person_id generation note row_digest local_uid",
)
AGENT_DELEGATE = _event(
    "SVC2074I",
    "agent.delegate",
    "an agent may act for a person",
    "agent_id delegation_id person_id actions not_after row_digest local_uid",
)
GROUP_ADD = _event("SVC2030I", "group.add", "a group was added", "group row_digest local_uid")
GROUP_JOIN = _event(
    "SVC2031I", "group.join", "a person joined a group", "group person_id note row_digest local_uid"
)
GROUP_LEAVE = _event(
    "SVC2032I", "group.leave", "a person left a group", "group person_id note row_digest local_uid"
)
GROUP_REMOVE = _event(
    "SVC2033I", "group.remove", "a group was removed", "group note row_digest local_uid"
)

POLICY_PROPOSE = _event(
    "SVC3001I",
    "policy.propose",
    "a policy was proposed",
    "policy_digest previous_digest note validated row_digest local_uid proposal_id proposer"
    " sensitive replay_digest replay_first replay_last",
)
POLICY_APPROVE = _event(
    "SVC3002I",
    "policy.approve",
    "a policy was approved",
    "policy_digest previous_digest note row_digest local_uid proposal_id certificate_sha256",
)
POLICY_ACTIVATE = _event(
    "SVC3003I",
    "policy.activate",
    "a policy came into force",
    "policy_digest previous_digest note validated row_digest local_uid"
    " replay_digest replay_first replay_last proposal_id proposer approvers sensitive",
)
POLICY_REFUSED = _event(
    "SVC3004W",
    "policy.refused",
    "a policy, or a person's approval of one, was refused",
    "policy_digest note local_uid proposal_id certificate_sha256",
)
POLICY_REJECT = _event(
    "SVC3007I",
    "policy.reject",
    "a proposed policy was rejected, or withdrawn by who proposed it",
    "policy_digest note row_digest local_uid proposal_id certificate_sha256",
)
STATE_UNSIGNED = _event(
    "SVC3005E",
    "state.unsigned",
    "a stored row was not applied because no signed record covers it",
    "row_digest policy_digest subject signed_digest",
)
STATE_ADOPT = _event(
    "SVC3006W",
    "state.adopt",
    "rows from before signed records were adopted unchanged",
    "count local_uid",
)
_SCOPE = "scope kinds onward_modes connectors match_labels labels id_prefix"
SCOPE_SET = _event(
    "SVC3010I",
    "scope.set",
    "a scope was set: which of what Connectors find enters the catalog",
    f"{_SCOPE} change previous_digest row_digest local_uid",
)
SCOPE_REMOVE = _event(
    "SVC3012I", "scope.remove", "a scope was removed", "scope row_digest local_uid"
)
EPOCH_ACTIVATE = _event(
    "SVC3011I",
    "epoch.activate",
    "an epoch came into force",
    "generation previous_digest row_digest local_uid",
)
_ROOT = "epoch material_revision owners row_digest local_uid"
ROOT_PREPARE = _event(
    "SVC3020I",
    "root.prepare",
    "a distribution root was prepared, and sealed to each owner",
    _ROOT,
)
ROOT_ACK = _event(
    "SVC3021I",
    "root.ack",
    "an owner acknowledged, with its signature, that it has the prepared root",
    f"{_ROOT} asked_by",
)
ROOT_ACTIVATE = _event(
    "SVC3022I", "root.activate", "the prepared distribution root came into force", _ROOT
)
ROOT_CANCEL = _event(
    "SVC3023I", "root.cancel", "an owner cancelled the prepared root", f"{_ROOT} asked_by"
)
ROOT_OWNER = _event(
    "SVC3025I",
    "root.owner",
    "an Authority registered its receiver credential",
    "owners key_digest row_digest",
)
ROOT_WITHDRAW = _event(
    "SVC3026I",
    "root.withdraw",
    "an Authority was withdrawn: no further root is sealed to it",
    "owners row_digest local_uid",
)
ROOT_READMIT = _event(
    "SVC3034I",
    "root.readmit",
    "an operator let a withdrawn Authority back: the next root is sealed to it",
    "owners key_digest row_digest local_uid",
)
KEY_SET_ENTER = _event(
    "SVC3027I",
    "keyset.enter",
    "the keys that the leader has loaded are a new revision, or are distributed now",
    "epoch material_revision key_digest row_digest",
)
ROTATION_PAUSE = _event(
    "SVC3028I", "rotation.pause", "rotation of keys and CAs was paused", "note row_digest local_uid"
)
ROTATION_RESUME = _event(
    "SVC3029I", "rotation.resume", "rotation of keys and CAs was resumed", "row_digest local_uid"
)
CA_ACTIVATE = _event(
    "SVC3024I",
    "ca.activate",
    "a revision of an issuing CA, or of a key that targets trust, came into force",
    "key_purpose generation certificate_sha256 row_digest",
)
RESOURCE_ADD = _event(
    "SVC3030I",
    "resource.add",
    "a resource was added to the catalog",
    "labels connector_id resource_identity assignment_revision scope onward_auth row_digest"
    " local_uid",
)
RESOURCE_CHANGE = _event(
    "SVC3031I",
    "resource.change",
    "a resource was changed",
    "change labels connector_id resource_identity assignment_revision previous_digest scope"
    " onward_auth row_digest local_uid",
)
RESOURCE_REMOVE = _event(
    "SVC3032I",
    "resource.remove",
    "a resource was removed",
    "connector_id resource_identity row_digest local_uid",
)
RESOURCE_DEPART = _event(
    "SVC3033I",
    "resource.depart",
    "a discovered resource is served no more; the reason says why",
    "connector_id resource_identity assignment_revision row_digest local_uid",
)

ROLE_START = _event("SVC4001I", "role.start", "a role started", "role version plugins")
ROLE_STOP = _event("SVC4002I", "role.stop", "a role stopped", "role version")
STORE_MIGRATE = _event("SVC4003I", "store.migrate", "migrations were applied", "migrations version")
STORE_RESTORED = _event(
    "SVC4004W",
    "store.restored",
    "an older store was restored on purpose",
    "head_hash head_size lost_hash lost_size shared_size until note local_uid",
)
CONFIG_RELOAD = _event(
    "SVC4008I",
    "config.reload",
    "a running Authority takes other values from its configuration",
    "keys config_sha256 local_uid",
)
OPERATOR_REFUSED = _event(
    "SVC4005W", "operator.refused", "an operator's command was refused", "local_uid source_address"
)
OPERATOR_READ = _event(
    "SVC4006I", "operator.read", "an operator read records of others", "count local_uid"
)
OPERATOR_BREAK_GLASS = _event(
    "SVC4007W",
    "operator.break_glass",
    "a break-glass principal did what the policy, or the lack of approvals, did not let anybody do",
    "local_uid policy_digest",
)
AUDIT_KEY = _event(
    "SVC4010I",
    "audit.key",
    "a key may sign records from now on",
    "key_digest key_purpose certificate_sha256 row_digest",
)
AUDIT_HELD = _event(
    "SVC4011E",
    "audit.held",
    "queued records of an origin were held back",
    "held_event_id spool_id first_n last_n count",
)
AUDIT_RELEASED = _event(
    "SVC4012I",
    "audit.released",
    "a held record was released",
    "held_event_id spool_id first_n record_digest note",
)
AUDIT_GAP = _event(
    "SVC4013E", "audit.gap", "records of an origin are missing", "spool_id first_n last_n count"
)
AUDIT_ERASED = _event(
    "SVC4014I",
    "audit.erased",
    "personal values that belong to records were erased",
    "count person_id erased since until local_uid",
)
REQUEST_ERASED = _event(
    "SVC4018I",
    "audit.request.erased",
    "a personal value was erased from the record of a request",
    "erased note local_uid",
)
ERASING = frozenset({AUDIT_ERASED.name, REQUEST_ERASED.name})
"""Events whose ``erased`` names what is missing beside the log."""

AUDIT_FILLED = _event(
    "SVC4015I", "audit.filled", "missing records have arrived", "spool_id first_n last_n count"
)
AUDIT_DISCARDED = _event(
    "SVC4016W",
    "audit.discarded",
    "a held record was discarded",
    "held_event_id spool_id first_n record_digest note",
)
AUDIT_CUT = _event(
    "SVC4017W",
    "audit.cut",
    "records that did not verify were removed from the log on purpose",
    "first_n last_n count head_size note local_uid",
)
SPOOL_OPEN = _event(
    "SVC4020I", "spool.open", "an origin opened a new spool", "spool_id key_digest former_spools"
)
SPOOL_CLOSE = _event(
    "SVC4021I", "spool.close", "an origin closed its spool; this is its last row", "spool_id last_n"
)
AUTHORITY_STANDBY = _event(
    "SVC4030I", "authority.standby", "an Authority is a standby for the leader", "leader_id version"
)
AUTHORITY_DOUBT = _event(
    "SVC4031E", "authority.doubt", "the state that a standby follows does not verify", "leader_id"
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
