"""Rows for the tables that nothing of this build writes, as their behaviour would leave them.

Whoever builds the behaviour takes its table out of here and lets ``contrib.levels`` write it by
the store's own facets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from attrs import frozen

Row = Mapping[str, Any]


@frozen
class Ids:
    """What the rows refer to; all of it is there.

    Attributes:
        certificate: The SHA-256 of a certificate of the approver's.
        version: A version of the policy that is not in force; ``parent`` an earlier one.
    """

    authority: str
    connector: str
    person: str
    approver: str
    group: str
    resource: str
    session: str
    certificate: bytes
    version: int
    parent: int


def digest(word: str) -> bytes:
    """32 bytes that stand for something named so."""
    return sha256(word.encode()).digest()


def made_ahead(ids: Ids) -> dict[str, Sequence[Row]]:
    """The rows of each table, parents first.

    What is switched on is nothing that changes anybody's access: no SSH gate, no root prepared.
    """
    return {**_catalog(ids), **_policy(ids), **_people(ids), **_keys(ids)}


def _catalog(ids: Ids) -> dict[str, Sequence[Row]]:
    lease = {"node_id": ids.connector, "source": "ec2"}
    return {
        "resource_names": [{"resource_id": ids.resource, "name": "the ledger"}],
        "node_capabilities": [{"node_id": ids.connector, "name": "kube_gate", "value": 1}],
        "epochs": [
            {"name": "kube_gate", "epoch": 1, "activated_at": 61.0, "activated_by": "local:0"},
        ],
        **scope_row(),
        "scope_leases": [lease | {"expires_at": 9e9}],
        "scope_rows": [
            lease
            | {
                "resource_id": "rack7",
                "kind": "ssh",
                "labels": '{"zone": "b"}',
                "scope": "racks",
                "refused": "mode_required",
                "seen_at": 63.0,
            },
        ],
    }


def scope_row() -> dict[str, Sequence[Row]]:
    """A scope, which is signed."""
    return {
        "scopes": [
            {
                "name": "racks",
                "kinds": "ssh tcp",
                "onward_auth": "certificate stored_key",
                "connectors": "c1",
                "id_prefix": "rack",
                "match_labels": '{"zone": "b"}',
                "labels": '{"tier": "lab"}',
                "origin": "operator",
                "revision": 2,
                "set_at": 62.0,
                "set_by": "local:0",
            },
        ],
    }


def _policy(ids: Ids) -> dict[str, Sequence[Row]]:
    return {
        "policy_proposals": [
            {
                "id": "proposal1",
                "text": "forbid (principal, action, resource);",
                "policy_sha256": digest("policy"),
                "parent": ids.parent,
                "parent_sha256": digest("parent"),
                "schema_sha256": digest("schema"),
                "entity_revision": 3,
                "replay": b"{}",
                "findings": b"{}",
                "proposer_kind": "person",
                "proposer": ids.person,
                "note": "closes the vault",
                "proposed_at": 70.0,
                "expires_at": 86470.0,
                "state": "open",
                "version": None,
            },
        ],
        "policy_approvals": [
            {
                "proposal_id": "proposal1",
                "approver": ids.approver,
                "decision": "approve",
                "payload": b"{}",
                "signature": bytes(64),
                "certificate": b"DER",
                "decided_at": 71.0,
                "expires_at": 86470.0,
            },
        ],
        **access_rows(ids.person, ids.approver, ids.certificate, ids.resource),
    }


def access_rows(
    person: str, approver: str, certificate: bytes, resource: str
) -> dict[str, Sequence[Row]]:
    """A request for access and who approved it; in a real store both are signed."""
    return {
        "access_requests": [
            {
                "id": "request1",
                "person_id": person,
                "resource_id": resource,
                "resource_identity": f"{resource}-1",
                "kind": "tcp",
                "action": "tcpConnect",
                "parameters": "{}",
                "reason": "an incident",
                "salt": b"\0salt\xff",
                "asked_secs": 3600,
                "text_sha256": "",
                "sealed_text": b"",
                "uses": 3,
                "used": 1,
                "asked_at": 70.0,
                "ends_at": 9e9,
                "state": "approved",
            },
        ],
        "access_approvals": [
            {
                "request_id": "request1",
                "approver": approver,
                "certificate_sha256": certificate,
                "payload": b"{}",
                "signature": bytes(64),
                "certificate": b"\0der\xff",
                "decided_at": 71.0,
                "ends_at": 9e9,
            },
        ],
    }


def _people(ids: Ids) -> dict[str, Sequence[Row]]:
    return {
        "person_secrets": [
            {
                "id": "secret1",
                "person_id": ids.person,
                "kind": "totp",
                "sealed": b"\0sealed\xff",
                "added_at": 82.0,
                "expires_at": 9e9,
            },
        ],
        "sign_in_codes": [{"secret_id": "secret1", "counter": 59000000}],
        **agent_rows(ids.person),
        **sign_in_rows(ids.person),
    }


def agent_rows(person: str) -> dict[str, Sequence[Row]]:
    """Somebody's agent, its certificate and a delegation; in a real store all are signed."""
    return {
        "agents": [
            {
                "id": "agent1",
                "name": "deployer",
                "owner": person,
                "state": "active",
                "issuer": "https://ci.example",
                "audience": "svc",
                "claims": '{"sub": "repo:a"}',
                "added_at": 80.0,
                "revoked_at": None,
            },
        ],
        "agent_certificates": [
            {
                "sha256": digest("agent's certificate"),
                "serial": "a1",
                "agent_id": "agent1",
                "key_sha256": digest("agent"),
                "generation": 1,
                "issued_at": 80.5,
                "expires": 9e9,
            },
        ],
        "delegations": [
            {
                "id": "delegation1",
                "agent_id": "agent1",
                "person_id": person,
                "actions": "view tcpConnect",
                "added_at": 81.0,
                "expires_at": 9e9,
                "revoked_at": None,
            },
        ],
    }


def sign_in_rows(person: str) -> dict[str, Sequence[Row]]:
    """Somebody's account at a provider, and a sign-in with it; in a real store both are signed."""
    return {
        "person_identities": [
            {
                "id": "identity1",
                "issuer": "https://issuer.example",
                "subject": "00u1",
                "person_id": person,
                "salt": b"\0salt\xff",
            },
        ],
        "sign_ins": [
            {
                "id": "signin1",
                "identity_id": "identity1",
                "person_id": person,
                "auth_time": 83.0,
                "began_at": 84.0,
                "ends_at": 9e9,
                "certificate_sha256": digest("signed in"),
                "key_sha256": digest("signed in key"),
                "generation": 1,
                "refresh": b"\0sealed\xff",
                "ended_at": None,
            },
        ],
    }


def root_rows(authority: str) -> dict[str, Sequence[Row]]:
    """A root that was prepared and cancelled, its owner, a key set, and a pause that is over."""
    return {
        "root_epochs": [
            {
                "epoch": 1,
                "digest": digest("root"),
                "material_revision": 1,
                "state": "cancelled",
                "prepared_at": 90.0,
                "activated_at": None,
            },
        ],
        "key_sets": [
            {"revision": 1, "digest": digest("keys"), "since": 89.0, "epoch": 0, "sealed": b""},
        ],
        "rotation_pauses": [
            {"id": "rotation", "is_paused": 0, "since": 88.0, "by": "local:0", "reason": "done"},
        ],
        "root_owners": [
            {
                "owner": "authority1",
                "node_id": authority,
                "receiver_key": digest("receiver"),
                "sealing_key": digest("sealing"),
                "state": "retained",
                "since": 87.0,
                "key_set": digest("keys"),
                "is_readmitted": 0,
                "former_nodes": "",
            },
        ],
        "root_acks": [
            {
                "epoch": 1,
                "owner": "authority1",
                "share": b"\0sealed\xff",
                "signature": bytes(64),
                "acked_at": 91.0,
            },
        ],
    }


def _keys(ids: Ids) -> dict[str, Sequence[Row]]:
    return {
        **root_rows(ids.authority),
        "crl_numbers": [{"kind": "node", "number": 4, "issued_at": 92.0}],
        "recordings": [
            {
                "session_uid": ids.session,
                "kind": "tcp",
                "format": "jsonl",
                "sha256": digest("recording"),
                "bytes": 1024,
                "sealed_to": "recordings-1",
                "place": "file:2026/recording1",
                "confirmed_at": None,
            },
        ],
    }
