"""m0037 to m0067: what is made ahead of the behaviour that uses it."""

from __future__ import annotations

from tests.store.migrations.case import (
    APPROVAL_BY,
    APPROVER,
    DRAFT,
    H2,
    NODE,
    PERSON,
    POLICY,
    RESOURCE,
    SESSION,
    SHORT,
    Case,
    ahead,
    but,
)

PROPOSAL = ahead("policy_proposals")
REQUEST = ahead("access_requests")
AGENT = ahead("agents")
ROOT = but(ahead("root_epochs"), state="active", activated_at=95.0)
APPROVALS = [POLICY, DRAFT, PERSON, APPROVER, APPROVAL_BY]

CATALOG = {
    "node_health": Case(
        before=[NODE],
        good=(
            "node_health",
            {
                "node_id": "n1",
                "at": 60.5,
                "worst": "warn",
                "failed": 0,
                "warnings": 1,
                "report": '{"version":"0.10.0","found":[]}',
            },
        ),
        optional=("worst",),
        refused=[
            {"node_id": "ghost"},
            {"worst": "bad"},
            {"failed": -1},
            {"warnings": -1},
            {"at": None},
        ],
        clash=[{"at": 61.0}],
    ),
    "node_capabilities": Case(
        before=[NODE],
        good=ahead("node_capabilities"),
        refused=[{"node_id": "ghost"}, {"value": -1}],
        clash=[{"value": 2}],
        beside=[{"name": "ssh_gate"}],
    ),
    "resource_onward_auth": Case(
        before=[NODE, RESOURCE],
        good=but(RESOURCE, id="r2", onward_auth="certificate"),
        refused=[{"onward_auth": "any"}, {"onward_auth": ""}, {"source": "guessed"}],
        beside=[
            {"id": "r3", "onward_auth": "passthrough"},
            {"id": "r4", "onward_auth": "stored_key"},
            {"id": "r5", "source": "discovered"},
        ],
        then={
            "SELECT id, onward_auth, source FROM resources ORDER BY id": [
                ("r1", None, "manual"),
                ("r2", "certificate", "manual"),
            ],
        },
    ),
    "resource_names": Case(
        before=[NODE, RESOURCE, but(RESOURCE, id="r2")],
        good=ahead("resource_names"),
        refused=[{"resource_id": "ghost"}],
        clash=[{}, {"resource_id": "r2"}],
        beside=[{"name": "books"}],
        gone_with="DELETE FROM resources WHERE id = 'r1'",
    ),
    "epochs": Case(
        good=ahead("epochs"),
        refused=[{"epoch": 0}, {"activated_by": None}],
        clash=[{"epoch": 2}],
        beside=[{"name": "web_gate"}],
        then={"SELECT epoch FROM epochs WHERE name = 'ssh_gate'": []},
    ),
    "scopes": Case(
        good=ahead("scopes"),
        refused=[
            {"kinds": ""},
            {"revision": 0},
            {"onward_auth": ""},
            {"kinds": "ssh", "onward_auth": ""},
            {"kinds": "tcp ssh", "onward_auth": ""},
            {"onward_auth": None},
            {"origin": "hand"},
            {"labels": None},
        ],
        clash=[{"kinds": "tcp"}],
        beside=[
            {"name": "tables", "kinds": "tcp", "onward_auth": ""},
            {"name": "shells", "kinds": "openssh", "onward_auth": ""},
        ],
    ),
    "scope_leases": Case(
        before=[NODE],
        good=ahead("scope_leases"),
        refused=[{"node_id": "ghost"}, {"expires_at": None}],
        clash=[{"expires_at": 1.0}],
        beside=[{"source": "hosts"}],
    ),
    "expiring_scope_leases": Case(
        before=[NODE, ahead("scope_leases")],
        found_by="SELECT node_id, source FROM scope_leases WHERE expires_at <= 64.0",
    ),
    "scope_rows": Case(
        before=[NODE, ahead("scope_leases")],
        good=ahead("scope_rows"),
        refused=[{"node_id": "ghost"}, {"source": "ghost"}, {"refused": None}],
        clash=[{"kind": "tcp"}],
        beside=[{"resource_id": "rack8"}],
        gone_with="DELETE FROM scope_leases WHERE expires_at > 64.0",
    ),
}

REVIEW = {
    "policy_proposals": Case(
        before=[POLICY, DRAFT],
        good=PROPOSAL,
        optional=("version",),
        refused=[
            {"parent": 0},
            {"parent": 9},
            {"policy_sha256": SHORT},
            {"parent_sha256": SHORT},
            {"schema_sha256": SHORT},
            {"expires_at": 70.0},
            {"state": "lost"},
            {"state": "activated"},
            {"version": 2},
            {"proposer_kind": "node"},
            {"proposer": None},
        ],
        clash=[{"note": "another"}],
        beside=[{"id": "proposal2", "state": "activated", "version": 2}],
    ),
    "open_proposals": Case(
        before=[POLICY, DRAFT, PROPOSAL],
        found_by="SELECT id FROM policy_proposals WHERE state = 'open' ORDER BY expires_at",
    ),
    "policy_approvals": Case(
        before=[POLICY, DRAFT, PERSON, APPROVER, PROPOSAL],
        good=ahead("policy_approvals"),
        refused=[
            {"proposal_id": "ghost"},
            {"approver": "ghost"},
            {"decision": "perhaps"},
            {"payload": b""},
            {"signature": b""},
            {"certificate": b""},
        ],
        clash=[{"signature": b"another"}],
        beside=[{"approver": "p1", "decision": "deny"}],
    ),
    "access_requests": Case(
        before=[PERSON],
        good=REQUEST,
        refused=[
            {"person_id": "ghost"},
            {"asked_secs": 0},
            {"uses": 0},
            {"used": -1},
            {"used": 4},
            {"ends_at": 70.0},
            {"state": "lost"},
        ],
        clash=[{"action": "view"}],
        beside=[{"id": "request2", "state": "open", "uses": None, "used": 0}],
        optional=("uses",),
    ),
    "open_requests_of_a_person": Case(
        before=[PERSON, REQUEST],
        good=but(REQUEST, id="request2", resource_id="r2"),
        beside=[{"id": "request3", "resource_id": "r1", "state": "withdrawn"}],
        found_by="SELECT id FROM access_requests WHERE person_id = 'p1' AND ends_at > 80.0",
    ),
    "access_approvals": Case(
        before=[*APPROVALS, REQUEST],
        good=ahead("access_approvals"),
        refused=[
            {"request_id": "ghost"},
            {"approver": "ghost"},
            {"certificate_sha256": H2},
            {"payload": b""},
            {"signature": b""},
            {"certificate": b""},
        ],
        clash=[{"signature": b"another"}, {"approver": "p1"}],
    ),
}

PEOPLE = {
    "agents": Case(
        before=[PERSON],
        good=AGENT,
        refused=[
            {"owner": "ghost"},
            {"state": "lost"},
            {"claims": None},
            {"issuer": None},
            {"state": "revoked"},
            {"revoked_at": 81.0},
        ],
        clash=[{"id": "agent2"}, {"name": "other"}],
        beside=[{"id": "agent2", "name": "other", "state": "revoked", "revoked_at": 81.0}],
    ),
    "agents_of_an_owner": Case(
        before=[PERSON, AGENT],
        found_by="SELECT id FROM agents WHERE owner = 'p1' AND state = 'active'",
    ),
    "agent_last_seen": Case(
        before=[PERSON, AGENT],
        good=but(AGENT, id="agent2", name="seen", last_seen=83.5),
        then={
            "SELECT id, last_seen FROM agents ORDER BY id": [("agent1", None), ("agent2", 83.5)],
        },
    ),
    "delegations": Case(
        before=[PERSON, AGENT],
        good=ahead("delegations"),
        refused=[
            {"agent_id": "ghost"},
            {"person_id": "ghost"},
            {"actions": ""},
            {"expires_at": 81.0},
            {"expires_at": None},
        ],
        clash=[{"actions": "view"}],
        beside=[{"id": "delegation2"}],
    ),
    "unexpired_delegations": Case(
        before=[PERSON, AGENT, ahead("delegations")],
        found_by="SELECT id FROM delegations WHERE expires_at > 84.0",
    ),
    "person_secrets": Case(
        before=[PERSON],
        good=ahead("person_secrets"),
        optional=("expires_at",),
        refused=[{"person_id": "ghost"}, {"kind": "pin"}, {"sealed": b""}],
        clash=[{"sealed": b"other"}],
        beside=[{"id": "secret2"}, {"id": "secret3", "kind": "password"}],
    ),
    "sign_in_codes": Case(
        before=[PERSON, ahead("person_secrets")],
        good=ahead("sign_in_codes"),
        refused=[{"secret_id": "ghost"}, {"counter": -1}],
        clash=[{"counter": 59000001}],
        gone_with="DELETE FROM person_secrets WHERE person_id = 'p1'",
    ),
    "person_identities": Case(
        before=[PERSON, APPROVER],
        good=ahead("person_identities"),
        refused=[{"person_id": "ghost"}],
        clash=[{"person_id": "p2"}, {"id": "identity2"}],
        beside=[
            {"id": "identity2", "subject": "00u2"},
            {"id": "identity3", "issuer": "https://b.example"},
        ],
    ),
    "sign_ins": Case(
        before=[PERSON, ahead("person_identities")],
        good=ahead("sign_ins"),
        optional=("ended_at",),
        refused=[
            {"person_id": "ghost"},
            {"identity_id": "ghost"},
            {"certificate_sha256": SHORT},
            {"key_sha256": SHORT},
            {"generation": 0},
        ],
        clash=[{"certificate_sha256": H2}, {"id": "signin2"}],
        beside=[{"id": "signin2", "certificate_sha256": H2, "ended_at": 85.0}],
    ),
}

KEYS = {
    "root_epochs": Case(
        good=ahead("root_epochs"),
        refused=[
            {"epoch": 0},
            {"digest": SHORT},
            {"material_revision": 0},
            {"state": "lost"},
            {"state": "active"},
            {"activated_at": 95.0},
        ],
        clash=[{"state": "prepared"}],
        beside=[{"epoch": 2, "state": "prepared"}],
    ),
    "one_active_root": Case(
        before=[ROOT, but(ROOT, epoch=2, state="retired")],
        good=but(ROOT, epoch=3, state="prepared", activated_at=None),
        refused=[{"state": "active", "activated_at": 96.0}],
        beside=[{"epoch": 4}],
        found_by="SELECT epoch FROM root_epochs WHERE state = 'active'",
    ),
    "root_owners": Case(
        good=ahead("root_owners"),
        refused=[
            {"receiver_key": SHORT},
            {"sealing_key": SHORT},
            {"sealing_key": None},
            {"receiver_key": None, "sealing_key": None},
            {"state": "lost"},
            {"is_readmitted": 2},
            {"state": "withdrawn", "is_readmitted": 1},
        ],
        clash=[{"receiver_key": H2}, {"owner": "authority2"}],
        beside=[{"owner": "authority2", "receiver_key": H2}],
    ),
    "root_acks": Case(
        before=[ahead("root_epochs"), ahead("root_owners")],
        good=ahead("root_acks"),
        refused=[
            {"epoch": 2},
            {"owner": "ghost"},
            {"share": b""},
            {"signature": b""},
            {"signature": None},
        ],
        clash=[{"signature": b"another"}],
    ),
    "crl_numbers": Case(
        good=ahead("crl_numbers"),
        refused=[{"number": 0}],
        clash=[{"number": 5}],
        beside=[{"kind": "person"}],
    ),
    "recordings": Case(
        before=[SESSION],
        good=ahead("recordings"),
        refused=[{"session_uid": "ghost"}, {"sha256": SHORT}, {"bytes": -1}, {"place": None}],
        clash=[{"place": "elsewhere"}],
    ),
    "unconfirmed_recordings": Case(
        before=[SESSION, ahead("recordings")],
        found_by="SELECT session_uid FROM recordings WHERE confirmed_at IS NULL"
        " ORDER BY session_uid",
    ),
}
