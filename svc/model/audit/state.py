r"""What a signed record says of a protected row, and the digest that names the row.

Rule R8: policies, roles, groups, revocations, join tokens, audit keys and
revisions of issuing CAs are in force only as a signed audit record says.  A
record that changes them names each row by *subject* and *digest*; a row whose
digest is not the one of the newest record of its subject has no effect.  The
digest covers every field that decides anything, and nothing that does not (when
a node was last seen).

Pure.  A digest is SHA-256 over ``svc-state-row-v1\0`` and the canonical JSON of
the fields; numbers are written as text, so that whatever stands in a table has
a digest.  The digests are part of signed records: a field is added with care
(a new form, beside the old one), never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import NoReturn

from attrs import field, frozen

from svc.errors import Malformed
from svc.model.audit.ledger import GENESIS
from svc.model.audit.standing import StandingSession
from svc.model.canonical import MAX_INTEGER, Json, encode
from svc.model.cluster.account import PersonSecret
from svc.model.cluster.agent import Agent, AgentCertificate, Delegation
from svc.model.cluster.key_revision import KeyRevision
from svc.model.cluster.node import ExpectedKey, KeptToken, Node, Publication
from svc.model.cluster.person import IssuedCertificate, Person
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.model.policy.proposal import Proposal, ProposalDecision
from svc.model.policy.requested import KeptApproval, RequestedAccess
from svc.model.policy.version import PolicyVersion

ROW_DOMAIN = b"svc-state-row-v1\0"
MAX_ROWS = 512
"""Rows that one record may name, so that the record stays within its size."""

CATALOG_SORTS = frozenset({"person", "group", "resource", "agent", "delegation"})
"""A change of these counts one revision of the catalog."""


CATALOG = "catalog:revision"
"""The subject under which a changed counter of the catalog is named; in no record."""


@frozen
class StateEntry:
    """What one row must be.

    Attributes:
        subject: ``<sort>:<id>``.
        digest: Of the row; None says that there is no such row any more.
        until: Seconds since the epoch after which neither entry nor row mean anything.
    """

    subject: str
    digest: bytes | None
    until: int | None = None

    @property
    def sort(self) -> str:
        """The sort of the row: ``person``, ``node`` and so on."""
        return self.subject.partition(":")[0]


@frozen
class StateChange:
    """The member ``state`` of a record that changes protected rows.

    Attributes:
        n: Counts such records from 1, without a hole.
        prev: The chain hash of the record with ``n - 1``; zero bytes for the first.
        catalog: The revision of the catalog after the change; None where it did not count.
        session: That stands on some of the rows from now on; not in the member, the record says it.
    """

    n: int
    prev: bytes
    rows: tuple[StateEntry, ...]
    catalog: int | None = None
    session: StandingSession | None = None

    def form(self) -> dict[str, Json]:
        """Its form in the record's canonical bytes."""
        form: dict[str, Json] = {
            "n": self.n,
            "prev": self.prev.hex(),
            "rows": [_row_form(one) for one in self.rows],
        }
        if self.catalog is not None:
            form["catalog"] = self.catalog
        return form


@frozen
class StateHead:
    """The newest record of state: its number, its place in the log, its chain hash."""

    n: int = 0
    seq: int = 0
    hash: bytes = GENESIS


@frozen
class StateRow:
    """One record of state with its signature, as the store keeps it.

    ``canonical``, ``prev_hash`` and ``hash`` are empty where the log lacks the
    record, ``certificate`` (DER) where the signer's is missing.
    """

    n: int
    seq: int
    prev_hash: bytes
    hash: bytes
    canonical: bytes = field(repr=False)
    key_id: str
    signature: bytes = field(repr=False)
    certificate: bytes = field(repr=False)


def read_change(form: Json) -> StateChange:
    """The change that :meth:`StateChange.form` wrote.

    Raises:
        Malformed: it is not of that form.
    """
    if not isinstance(form, Mapping) or not {"n", "prev", "rows"} <= set(form):
        _refuse()
    if set(form) - {"n", "prev", "rows", "catalog"}:
        _refuse()
    rows, catalog = form["rows"], form.get("catalog")
    if not isinstance(rows, (list, tuple)) or not 1 <= len(rows) <= MAX_ROWS:
        _refuse()
    entries = tuple(_read_row(one) for one in rows)
    return StateChange(
        n=_whole(form["n"]),
        prev=_digest(form["prev"]),
        rows=entries,
        catalog=None if catalog is None else _whole(catalog),
    )


# -- subjects and digests


def person_entry(person: Person) -> StateEntry:
    """A person with its groups; the salt keeps the name from being guessed once it is erased."""
    return _entry(
        f"person:{person.id}",
        {
            "name": person.name,
            "salt": person.salt.hex(),
            "state": person.state.value,
            "groups": sorted(person.groups),
        },
    )


def group_entry(name: str) -> StateEntry:
    """A group; it has no fields besides its name."""
    return _entry(f"group:{name}", {})


def node_entry(node: Node) -> StateEntry:
    """A node: what it is, what its records are verified by, its newest leaf.

    One that publishes by hand has the form of before that could be chosen.
    """
    fields: dict[str, Json] = {
        "name": node.name,
        "role": node.role,
        "key": node.key_sha256.hex(),
        "audit_key": node.audit_key.hex(),
        "state": node.state.value,
        "generation": str(node.generation),
        "leaf": [node.leaf.serial, node.leaf.key_sha256.hex(), _exact(node.leaf.expires)],
        "names": list(node.names),
    }
    if node.publication is not Publication.MANUAL:
        fields["publication"] = node.publication.value
    return _entry(f"node:{node.id}", fields)


def token_entry(kept: KeptToken) -> StateEntry:
    """A join token, spent or not."""
    token = kept.token
    fields: dict[str, Json] = {
        "secret": token.secret_sha256.hex(),
        "role": token.role.value,
        "expires": _exact(token.expires_at),
        "bound_to": token.bound_to,
        "names": list(token.names),
        "spent": kept.spent_at is not None,
    }
    return _entry(f"token:{token.id}", fields, token.expires_at)


def expected_entry(expected: ExpectedKey) -> StateEntry:
    """A key that may join without a token, used or not."""
    fields: dict[str, Json] = {
        "role": expected.role.value,
        "name": expected.name,
        "key": expected.key_sha256.hex(),
        "issuer": expected.issuer,
        "expires": _exact(expected.expires_at),
        "names": list(expected.names),
        "used": expected.used_at is not None,
    }
    return _entry(f"expected:{expected.id}", fields, expected.expires_at)


def certificate_entry(issued: IssuedCertificate) -> StateEntry:
    """A person's certificate, revoked or not; one of no sign-in has the form of before these."""
    fields: dict[str, Json] = {
        "serial": issued.serial,
        "person": issued.person_id,
        "expires": _exact(issued.expires),
        "revoked": issued.revoked_at is not None,
    }
    if issued.sign_in_id:
        fields["sign_in"] = issued.sign_in_id
    fields |= {"signed_out": True} if issued.signed_out else {}
    return _entry(f"certificate:{issued.sha256.hex()}", fields, issued.expires)


def identity_entry(link: IdentityLink) -> StateEntry:
    """Who somebody of a provider is here; the salt keeps the subject from being guessed."""
    fields: dict[str, Json] = {
        "iss": link.issuer,
        "sub": link.subject,
        "person": link.person_id,
        "salt": link.salt.hex(),
    }
    return _entry(f"identity:{link.id}", fields)


def sign_in_entry(sign_in: SignIn) -> StateEntry:
    """A person's sign-in, ended or not, with the digest of its sealed refresh token."""
    fields: dict[str, Json] = {
        "identity": sign_in.identity_id,
        "person": sign_in.person_id,
        "auth_time": _exact(sign_in.auth_time),
        "ends": _exact(sign_in.ends_at),
        "certificate": sign_in.certificate_sha256.hex(),
        "key": sign_in.key_sha256.hex(),
        "generation": str(sign_in.generation),
        "refresh": sha256(sign_in.refresh).hexdigest(),
        "ended": sign_in.ended_at is not None,
    }
    return _entry(f"signin:{sign_in.id}", fields, sign_in.ends_at)


def secret_entry(secret: PersonSecret) -> StateEntry:
    """A credential of a person without a provider, with the digest of what is sealed in it."""
    fields: dict[str, Json] = {
        "person": secret.person_id,
        "kind": secret.kind.value,
        "sealed": sha256(secret.sealed).hexdigest(),
        "counter": None if secret.counter is None else str(secret.counter),
        "expires": None if secret.expires_at is None else _exact(secret.expires_at),
    }
    return _entry(f"secret:{secret.id}", fields)


def access_entry(request: RequestedAccess) -> StateEntry:
    """A request for access, decided or not, with how often it was used.

    The reason stands in it by a digest with the row's salt: it can be erased.
    """
    fields: dict[str, Json] = {
        "person": request.person_id,
        "resource": request.resource_id,
        "identity": request.resource_identity,
        "kind": request.kind,
        "action": request.action,
        "parameters": sha256(request.salt + encode(dict(request.parameters))).hexdigest(),
        "reason": sha256(request.salt + request.reason.encode("utf-8", "replace")).hexdigest(),
        "secs": str(request.asked_secs),
        "uses": None if request.uses is None else str(request.uses),
        "used": str(request.used),
        "asked": _exact(request.asked_at),
        "ends": _exact(request.ends_at),
        "state": request.state.value,
    }
    if request.text_sha256:
        text = sha256(request.salt + request.text_sha256.encode("utf-8", "replace"))
        fields["text"] = text.hexdigest()
    return _entry(f"access:{request.id}", fields, request.ends_at)


def access_decision_entry(kept: KeptApproval) -> StateEntry:
    """What one person decided about a request for access, with the signature."""
    fields: dict[str, Json] = {
        "approver": kept.approver,
        "certificate": kept.certificate_sha256.hex(),
        "payload": sha256(kept.payload).hexdigest(),
        "signature": sha256(kept.signature).hexdigest(),
        "leaf": sha256(kept.certificate).hexdigest(),
        "ends": _exact(kept.ends_at),
    }
    return _entry(f"access_decision:{kept.request_id}", fields, kept.ends_at)


def agent_entry(agent: Agent) -> StateEntry:
    """An agent: whose it is, and whose assertion it may enroll by."""
    fields: dict[str, Json] = {
        "name": agent.name,
        "owner": agent.owner,
        "state": agent.state.value,
        "issuer": agent.assertion.issuer,
        "audience": agent.assertion.audience,
        "claims": [list(pair) for pair in sorted(agent.assertion.claims.items())],
    }
    return _entry(f"agent:{agent.id}", fields)


def agent_certificate_entry(issued: AgentCertificate) -> StateEntry:
    """An agent's certificate; it is good while the agent is."""
    fields: dict[str, Json] = {
        "serial": issued.serial,
        "agent": issued.agent_id,
        "key": issued.key_sha256.hex(),
        "generation": str(issued.generation),
        "expires": _exact(issued.expires),
    }
    return _entry(f"agentcert:{issued.sha256.hex()}", fields, issued.expires)


def delegation_entry(delegation: Delegation) -> StateEntry:
    """For whom an agent may act, in what, until when."""
    fields: dict[str, Json] = {
        "agent": delegation.agent_id,
        "person": delegation.person_id,
        "actions": sorted(delegation.actions),
        "expires": _exact(delegation.expires_at),
        "revoked": delegation.revoked_at is not None,
    }
    return _entry(f"delegation:{delegation.id}", fields, delegation.expires_at)


def policy_entry(policy: PolicyVersion) -> StateEntry:
    """A version of the policy text, activated or not."""
    return _entry(
        f"policy:{policy.version}",
        {
            "text": policy.text,
            "sha256": policy.sha256.hex(),
            "author": policy.author,
            "created": _exact(policy.created_at),
            "activated": policy.activated_at is not None,
        },
    )


def proposal_entry(proposal: Proposal) -> StateEntry:
    """A proposed policy, open or closed, with the digests of its text and of its replay."""
    fields: dict[str, Json] = {
        "policy": sha256(proposal.text.encode("utf-8", "surrogatepass")).hexdigest(),
        "sha256": proposal.policy_sha256.hex(),
        "parent": str(proposal.parent),
        "parent_sha256": proposal.parent_sha256.hex(),
        "schema": proposal.schema_sha256.hex(),
        "entities": str(proposal.entity_revision),
        "replay": sha256(proposal.replay).hexdigest(),
        "findings": sha256(proposal.findings).hexdigest(),
        "proposer": [proposal.proposer_kind, proposal.proposer],
        "note": proposal.note,
        "proposed": _exact(proposal.proposed_at),
        "expires": _exact(proposal.expires_at),
        "state": proposal.state.value,
        "version": None if proposal.version is None else str(proposal.version),
    }
    return _entry(f"proposal:{proposal.id}", fields, proposal.expires_at)


def policy_approval_entry(approval: ProposalDecision) -> StateEntry:
    """What somebody decided about a proposed policy."""
    fields: dict[str, Json] = {
        "decision": approval.decision.value,
        "payload": sha256(approval.payload).hexdigest(),
        "signature": approval.signature.hex(),
        "certificate": approval.certificate_sha256.hex(),
        "decided": _exact(approval.decided_at),
        "expires": _exact(approval.expires_at),
    }
    return _entry(f"policyapproval:{approval.id}", fields, approval.expires_at)


def key_entry(key: KeyRevision) -> StateEntry:
    """A revision of an issuing CA, in force or not any more."""
    return _entry(
        f"key:{key.kind}:{key.revision}",
        {"certificate": key.certificate, "state": key.state.value},
    )


def policy_version(subject: str) -> int:
    """The version a subject names; 0 where it is no policy's."""
    sort, _, word = subject.partition(":")
    return int(word) if sort == "policy" and word.isdecimal() else 0


def _entry(subject: str, fields: dict[str, Json], until: float | None = None) -> StateEntry:
    digest = sha256(ROW_DOMAIN + encode({"subject": subject, **fields})).digest()
    return StateEntry(subject, digest, None if until is None else _bounded(until))


def _exact(number: float) -> str:
    return float(number).hex()


row_entry, exact_time = _entry, _exact
"""For rows whose forms stand in modules of their own."""


def _bounded(until: float) -> int:
    """A time that a record can hold, whatever a table says; compared, never computed with."""
    return int(min(max(until, 0.0), float(MAX_INTEGER))) if until == until else 0


# -- the form


def _row_form(entry: StateEntry) -> list[Json]:
    form: list[Json] = [entry.subject, None if entry.digest is None else entry.digest.hex()]
    return form if entry.until is None else [*form, entry.until]


def _read_row(form: Json) -> StateEntry:
    if not isinstance(form, (list, tuple)) or len(form) not in (2, 3):
        _refuse()
    subject, digest = form[0], form[1]
    if not isinstance(subject, str) or ":" not in subject:
        _refuse()
    return StateEntry(
        subject,
        None if digest is None else _digest(digest),
        _whole(form[2]) if len(form) == 3 else None,
    )


def _whole(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        _refuse()
    return value


def _digest(value: Json) -> bytes:
    try:
        data = bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        _refuse()
    if len(data) != 32 or data.hex() != value:
        _refuse()
    return data


def _refuse() -> NoReturn:
    raise Malformed("state record: malformed")
