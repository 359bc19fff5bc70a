"""m0001 to m0036: who, what, and the log."""

from __future__ import annotations

from tests.store.migrations.case import (
    AUTHORITY,
    CERTIFICATE,
    GROUP,
    H2,
    KEY,
    NODE,
    PERSON,
    POLICY,
    RECORD,
    RESOURCE,
    SESSION,
    SHORT,
    SIGNER,
    TOKEN,
    Case,
    but,
)

WHO = {
    "store_facts": Case(
        good=("store_facts", {"name": "cluster", "value": "c.example"}),
        refused=[{"value": None}, {"name": None}],
        clash=[{"value": "other.example"}],
    ),
    "revisions": Case(
        good=("revisions", {"name": "other", "value": 7}),
        refused=[{"value": None}],
        clash=[{"value": 8}],
    ),
    "catalog_revision": Case(
        before=[("revisions", {"name": "other", "value": 7})],
        grows=("revisions",),
        then={"SELECT name, value FROM revisions ORDER BY name": [("catalog", 0), ("other", 7)]},
    ),
    "join_tokens": Case(
        good=TOKEN,
        refused=[{"role": "king"}, {"secret_sha256": SHORT}, {"expires_at": None}],
        clash=[{"secret_sha256": H2}],
        beside=[{"id": "t2"}],
    ),
    "nodes": Case(
        good=NODE,
        refused=[
            {"role": "person"},
            {"state": "gone"},
            {"generation": 0},
            {"key_sha256": SHORT},
            {"leaf_serial": None},
        ],
        clash=[{"name": "other", "audit_key": H2}, {"id": "n2"}],
        beside=[{"id": "n2", "audit_key": H2}],
    ),
    "active_node_names": Case(
        before=[
            NODE,
            but(NODE, id="n2", name="old", state="revoked", revoked_at=2.0, audit_key=H2),
        ],
        good=but(NODE, id="n3", name="old", audit_key=b"3"),
        refused=[{"name": "c1"}],
        clash=[{"id": "n4", "audit_key": b"4"}],
        beside=[{"id": "n4", "audit_key": b"4", "state": "revoked", "revoked_at": 3.0}],
        found_by="SELECT id FROM nodes WHERE name = 'old' AND state = 'active'",
    ),
    "persons": Case(
        good=PERSON,
        refused=[{"state": "gone"}, {"name": None}],
        clash=[{"name": "eve"}, {"id": "p2"}],
        beside=[{"id": "p2", "name": "eve"}, {"id": "p3", "name": "bob", "state": "disabled"}],
    ),
    "person_groups": Case(
        good=GROUP,
        refused=[{"added_at": None}],
        clash=[{"added_at": 2.0}],
        beside=[{"name": "ops"}],
    ),
    "memberships": Case(
        before=[PERSON, GROUP],
        good=("memberships", {"person_id": "p1", "group_name": "dev"}),
        refused=[{"person_id": "ghost"}, {"group_name": "ghosts"}],
        clash=[{}],
    ),
    "person_certificates": Case(
        before=[PERSON],
        good=CERTIFICATE,
        refused=[{"person_id": "ghost"}, {"sha256": SHORT}],
        clash=[{"serial": "02"}, {"sha256": H2}],
        beside=[{"serial": "02", "sha256": H2}],
    ),
    "certificates_of_a_person": Case(
        before=[PERSON, CERTIFICATE],
        found_by="SELECT sha256 FROM person_certificates WHERE person_id = 'p1'"
        " ORDER BY issued_at DESC",
    ),
    "token_public_names": Case(
        before=[TOKEN],
        good=but(TOKEN, id="t2", public_names="a.example b.example"),
        refused=[{"public_names": None}],
        then={
            "SELECT id, public_names FROM join_tokens ORDER BY id": [
                ("t1", ""),
                ("t2", "a.example b.example"),
            ],
        },
    ),
    "node_public_names": Case(
        before=[NODE],
        good=but(NODE, id="n2", name="edge", public_names="a.example", audit_key=H2),
        refused=[{"public_names": None}],
        then={
            "SELECT id, public_names FROM nodes ORDER BY id": [("n1", ""), ("n2", "a.example")],
        },
    ),
    "person_salts": Case(
        before=[PERSON],
        good=but(PERSON, id="p2", name="eve", salt=H2),
        refused=[{"salt": None}],
        then={"SELECT id, salt FROM persons ORDER BY id": [("p1", b""), ("p2", H2)]},
    ),
    "salt_of_each_person": Case(
        before=[but(PERSON, salt=b""), but(PERSON, id="p2", name="eve", salt=b"")],
        rewritten=("salt",),
        then={
            "SELECT count(DISTINCT salt), min(length(salt)), max(length(salt)) FROM persons": [
                (2, 16, 16)
            ],
        },
    ),
    "unexpired_tokens": Case(
        before=[TOKEN],
        found_by="SELECT id FROM join_tokens WHERE expires_at > 1.5",
    ),
    "unexpired_certificates": Case(
        before=[PERSON, CERTIFICATE],
        found_by="SELECT sha256 FROM person_certificates WHERE expires > 1.5",
    ),
}

WHAT = {
    "resources": Case(
        before=[NODE],
        good=RESOURCE,
        optional=("assigned_to",),
        refused=[{"assigned_to": "ghost"}, {"source": "told"}, {"kind": None}],
        clash=[{"kind": "tcp"}],
        beside=[{"id": "r2", "assigned_to": None}],
    ),
    "resource_labels": Case(
        before=[NODE, RESOURCE],
        good=("resource_labels", {"resource_id": "r1", "name": "zone", "value": "b"}),
        refused=[{"resource_id": "ghost"}, {"value": None}],
        clash=[{"value": "c"}],
        beside=[{"name": "rack"}],
        gone_with="DELETE FROM resources WHERE id = 'r1'",
    ),
    "resources_of_a_node": Case(
        before=[NODE, RESOURCE],
        found_by="SELECT id FROM resources WHERE assigned_to = 'n1'",
    ),
    "undeclared_resources": Case(
        before=[NODE],
        good=(
            "undeclared_resources",
            {"node_id": "n1", "resource_id": "r9", "kind": "tcp", "seen_at": 2.0},
        ),
        refused=[{"node_id": "ghost"}],
        clash=[{"kind": "ssh"}],
        beside=[{"resource_id": "r8"}],
    ),
    "policy_versions": Case(
        good=POLICY,
        optional=("activated_at",),
        refused=[{"version": 0}, {"sha256": SHORT}, {"text": None}],
        clash=[{"text": "other"}],
        beside=[{"version": 2}],
    ),
    "activated_policies": Case(
        before=[POLICY, but(POLICY, version=2, activated_at=None)],
        found_by="SELECT max(version) FROM policy_versions WHERE activated_at IS NOT NULL",
    ),
    "sessions": Case(
        good=SESSION,
        refused=[{"state": "lost"}, {"bytes_up": None}],
        clash=[{"person_id": "p2"}],
        beside=[{"uid": "s2"}],
    ),
    "open_sessions_of_a_proxy": Case(
        before=[SESSION, but(SESSION, uid="s2", state="ended", ended_at=2.0)],
        found_by="SELECT uid FROM sessions WHERE state = 'open' AND proxy_id = 'x1'"
        " ORDER BY started_at",
    ),
    "key_revisions": Case(
        good=KEY,
        refused=[{"revision": 0}, {"state": "lost"}],
        clash=[{"state": "retired"}],
        beside=[{"revision": 2}],
    ),
    "one_active_key_per_kind": Case(
        before=[KEY],
        good=but(KEY, revision=2, state="prepared"),
        refused=[{"state": "active"}],
        beside=[{"kind": "person", "state": "active"}],
        found_by="SELECT revision FROM key_revisions WHERE kind = 'node' AND state = 'active'",
    ),
}

LOG = {
    "audit_log": Case(
        good=RECORD,
        refused=[{"seq": 0}, {"hash": SHORT}, {"prev_hash": SHORT}],
        clash=[{"hash": RECORD[1]["prev_hash"]}],
        then={
            "SELECT event, time, actor_id, decision_id, session_uid FROM audit_log": [
                ("session.start", "1970-01-01T00:00:01Z", "p1", "d1", "s1"),
            ],
        },
    ),
    "audit_by_decision": Case(
        before=[RECORD],
        found_by="SELECT seq FROM audit_log WHERE decision_id = 'd1'",
    ),
    "personal_values": Case(
        before=[RECORD],
        good=("personal_values", {"seq": 1, "path": "source", "salt": H2, "value": '"x"'}),
        refused=[{"seq": 2}, {"value": None}],
        clash=[{"value": '"y"'}],
        beside=[{"path": "target"}],
    ),
    "entity_slices": Case(
        good=("entity_slices", {"digest": "d", "text": "{}"}),
        refused=[{"text": None}],
        clash=[{"text": "[]"}],
    ),
    "lease": Case(
        good=("lease", {"one": 1, "epoch": 0, "owner": "", "instance": "", "beats": 0}),
        refused=[{"one": 2}, {"epoch": -1}, {"beats": -1}, {"owner": None}],
        clash=[{"epoch": 1}],
    ),
    "nobody_leads": Case(
        then={"SELECT one, epoch, owner, instance, beats FROM lease": [(1, 0, "", "", 0)]},
    ),
    "audit_heads": Case(
        good=("audit_heads", {"tree_size": 1, "line": "{}"}),
        refused=[{"tree_size": 0}],
        clash=[{"line": "[]"}],
    ),
    "state_signers": Case(good=SIGNER, refused=[{"certificate": None}], clash=[{}]),
    "state_changes": Case(
        before=[AUTHORITY, RECORD, but(RECORD, seq=2), SIGNER],
        good=("state_changes", {"n": 1, "seq": 1, "key_id": "k1", "signature": H2}),
        refused=[{"n": 0}, {"seq": 3}, {"key_id": "k2"}, {"signature": None}],
        clash=[{"n": 2}, {"seq": 2}],
        beside=[{"n": 2, "seq": 2}],
    ),
}
