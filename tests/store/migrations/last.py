"""The 0.11 schema: what a store of before meant is what it means after it."""

from __future__ import annotations

from contrib.level_rows import digest
from tests.store.migrations.case import H1, H2, NODE, RESOURCE, SHORT, Case, Placed, but

PROXY = but(NODE, id="x1", name="edge", role="proxy", audit_key=H2, enrolled_at=2.0)
GONE = but(NODE, id="n2", name="c2", audit_key=digest("n2"), state="revoked", revoked_at=4.0)
GONE = but(GONE, enrolled_at=3.0)
FREE = but(RESOURCE, id="r2", kind="tcp", assigned_to=None, revision=2, added_at=2.0)
OF_GONE = but(RESOURCE, id="r3", assigned_to="n2", revision=7, added_at=6.5)


def identity(placed: Placed) -> Placed:
    """The first one of a resource."""
    row = placed[1]
    return "resource_identities", {
        "identity": f"first.{row['id']}",
        "resource_id": row["id"],
        "kind": row["kind"],
        "first_seen": row["added_at"],
        "retired_at": None,
    }


BINDING: Placed = (
    "manual_bindings",
    {
        "identity": "first.r2",
        "node_id": "n1",
        "revision": 8,
        "state": "current",
        "bound_at": 3.0,
    },
)

LAST = {
    "bootstrap_identity": Case(
        good=(
            "bootstrap_identities",
            {
                "id": "b1",
                "role": "connector",
                "name": "c9",
                "public_names": "",
                "key_sha256": H1,
                "issuer": "local:0",
                "created_at": 1.0,
                "expires_at": 2.0,
                "used_at": None,
            },
        ),
        refused=[
            {"role": "authority"},
            {"role": "person"},
            {"key_sha256": SHORT},
        ],
        clash=[{"id": "b2"}, {"key_sha256": H2}],
        beside=[{"id": "b2", "key_sha256": H2, "used_at": 1.5}],
    ),
    "resource_identities": Case(
        before=[NODE, RESOURCE, FREE],
        good=but(identity(RESOURCE), identity="second", resource_id="r4"),
        optional=("retired_at",),
        refused=[{"identity": "first.r1"}, {"resource_id": "r1"}, {"kind": None}],
        clash=[{"identity": "third"}],
        beside=[
            {"identity": "third", "retired_at": 4.0},
            {"identity": "third", "resource_id": "r5"},
        ],
        then={
            "SELECT * FROM resource_identities WHERE resource_id <> 'r4' ORDER BY identity": [
                ("first.r1", "r1", "ssh", 1.0, None),
                ("first.r2", "r2", "tcp", 2.0, None),
            ],
        },
    ),
    "connector_publication": Case(
        before=[NODE, PROXY, GONE],
        good=("connector_publication", {"node_id": "x1", "mode": "automatic", "since": 5.0}),
        refused=[{"node_id": "ghost"}, {"mode": "all"}, {"mode": None}, {"node_id": "n1"}],
        clash=[{"mode": "manual"}],
        then={
            "SELECT * FROM connector_publication WHERE node_id <> 'x1' ORDER BY node_id": [
                ("n1", "manual", 1.0),
                ("n2", "manual", 3.0),
            ],
        },
    ),
    "manual_resource_bindings": Case(
        before=[
            NODE,
            GONE,
            RESOURCE,
            FREE,
            OF_GONE,
            *map(identity, (RESOURCE, FREE, OF_GONE)),
        ],
        rewritten=("assigned_to",),
        good=BINDING,
        refused=[
            {"identity": "nobody"},
            {"node_id": "ghost"},
            {"state": "lost"},
            {"identity": "first.r1"},
        ],
        clash=[{}, {"revision": 9}, {"state": "past"}],
        beside=[
            {"revision": 9, "state": "past"},
            {"revision": 9, "state": "past", "node_id": None},
        ],
        then={
            "SELECT * FROM manual_bindings WHERE identity <> 'first.r2' ORDER BY node_id": [
                ("first.r1", "n1", 1, "current", 1.0),
                ("first.r3", "n2", 7, "current", 6.5),
            ],
        },
    ),
    "manual_assignment_revision": Case(
        before=[NODE, identity(FREE), BINDING],
        good=but(BINDING, state="past", revision=9, assignment_revision=4),
        refused=[{"assignment_revision": None}],
        then={
            "SELECT assignment_revision FROM manual_bindings ORDER BY revision": [(1,), (4,)],
        },
    ),
    "manual_inventory_generation": Case(
        before=[NODE, PROXY, GONE],
        good=("manual_inventory", {"node_id": "x1", "generation": 2, "taken_at": 5.0}),
        refused=[{"node_id": "ghost"}, {"generation": 0}, {"node_id": "n1"}],
        clash=[{"generation": 3}],
        then={
            "SELECT * FROM manual_inventory WHERE node_id <> 'x1' ORDER BY node_id": [
                ("n1", 1, 1.0),
                ("n2", 1, 3.0),
            ],
        },
    ),
}
