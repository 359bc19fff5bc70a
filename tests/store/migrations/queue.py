"""m0068 to m0079: the audit queue, and the Authorities among themselves."""

from __future__ import annotations

from tests.store.migrations.case import H2, MEMBER, QUEUED, RECORD, SPOOL, Case, but

QUEUE = {
    "outbox": Case(
        good=QUEUED,
        refused=[{"hold": "lost"}, {"origin": None}, {"signature": None}, {"digest": None}],
        clash=[{"n": 2}],
        beside=[{"id": 2, "hold": "unsigned", "held_at": 2.0}],
    ),
    "outbox_numbers": Case(
        before=[("revisions", {"name": "other", "value": 7})],
        grows=("revisions",),
        then={
            "SELECT name, value FROM revisions ORDER BY name": [
                ("catalog", 0),
                ("other", 7),
                ("outbox", 0),
            ],
        },
    ),
    "outbox_by_place": Case(
        before=[QUEUED],
        found_by="SELECT max(n) FROM outbox WHERE origin = 'n1' AND spool_id = 'sp1'",
    ),
    "outbox_by_origin": Case(
        before=[QUEUED],
        found_by="SELECT count(*), sum(size) FROM outbox WHERE origin = 'n1'",
    ),
    "outbox_held": Case(
        before=[QUEUED, but(QUEUED, id=2, hold="forged", held_at=2.0)],
        found_by="SELECT id FROM outbox WHERE hold = 'forged' ORDER BY id",
    ),
    "outbox_spools": Case(
        good=SPOOL,
        optional=("top", "holed_since"),
        refused=[{"high": None}, {"holes": None}],
        clash=[{"high": 4}],
        beside=[{"origin": "n2"}],
    ),
    "outbox_holed": Case(
        before=[SPOOL, but(SPOOL, spool_id="sp2", holes="", holed_since=None)],
        found_by="SELECT spool_id FROM outbox_spools WHERE holed_since <= 5.0",
    ),
    "audit_origins": Case(
        before=[RECORD, but(RECORD, seq=2), QUEUED],
        good=(
            "audit_origins",
            {
                "seq": 1,
                "queue_id": 1,
                "event_id": "e1",
                "origin": "n1",
                "spool_id": "sp1",
                "n": 1,
            },
        ),
        refused=[{"seq": 3}, {"event_id": None}, {"origin": None}],
        clash=[
            {"queue_id": 2, "event_id": "e2", "n": 2},
            {"seq": 2, "event_id": "e2", "n": 2},
            {"seq": 2, "queue_id": 2, "n": 2},
            {"seq": 2, "queue_id": 2, "event_id": "e2"},
        ],
        beside=[
            {"seq": 2, "queue_id": 2, "event_id": "e2", "n": 2},
            {"seq": 2, "queue_id": 2, "event_id": "e2", "origin": "n2"},
        ],
    ),
    "origin_signatures": Case(
        before=[RECORD],
        good=but(RECORD, seq=2, signature=H2),
        then={"SELECT seq, signature FROM audit_log ORDER BY seq": [(1, None), (2, H2)]},
    ),
    "outbox_discarded": Case(
        good=(
            "outbox_discarded",
            {
                "queue_id": 1,
                "origin": "n1",
                "spool_id": "sp1",
                "n": 1,
                "digest": H2,
                "discarded_at": 3.0,
            },
        ),
        refused=[{"digest": None}],
        clash=[{"n": 2}],
        beside=[{"queue_id": 2}],
    ),
    "authority_members": Case(
        good=MEMBER,
        refused=[{"beats": -1}, {"node_id": None}],
        clash=[{"beats": 8}],
        beside=[{"owner": "authority2"}],
    ),
    "member_instances": Case(
        before=[MEMBER],
        good=but(MEMBER, owner="authority2", instance="i2"),
        refused=[{"instance": None}],
        then={
            "SELECT owner, beats, instance FROM authority_members ORDER BY owner": [
                ("authority1", 7, ""),
                ("authority2", 7, "i2"),
            ],
        },
    ),
}
