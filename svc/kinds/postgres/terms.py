"""How policies speak of PostgreSQL: its actions, its facts, what a person may ask for."""

from __future__ import annotations

from svc.interfaces.kinds import KindTerms
from svc.model.session.parameters import Parameter

QUERY, OPAQUE = "dbQuery", "dbQueryOpaque"

DATABASE, ROLE = "database", "db_role"

NAME = r"[A-Za-z0-9_][A-Za-z0-9_.$@+-]{0,62}"
"""ASCII, so that its 63 characters are the 63 bytes that PostgreSQL keeps of a name."""

UNPREPARED, PASSED_OVER = "unknown_statement", "skipped"
"""Why the gate refuses a message, whatever policy says of it."""

TERMS = KindTerms(
    "Database",
    open_action="dbConnect",
    actions={"dbConnect": "db_connect", QUERY: "db_query", OPAQUE: "db_query"},
    context={
        "effects": "Set<String>",
        "objects": "Set<String>",
        "tables_read": "Set<String> public",
        "tables_written": "Set<String> public",
        "schemas": "Set<String> public",
        "functions": "Set<String> public",
    },
    parameters={
        DATABASE: Parameter(form=NAME, fact="public", enforced=True),
        ROLE: Parameter(form=NAME, fact="public", enforced=True),
    },
    reasons={
        UNPREPARED: "no statement of this name was prepared in this session",
        PASSED_OVER: "an earlier message of the same batch was denied, and nothing of the batch "
        "after it is sent on",
    },
    protocol="postgres",
)
