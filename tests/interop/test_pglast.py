"""What statements write and read, held against a second reader: pglast and its own visitors.

Ours may say more, or that it does not know; never less.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest import SkipTest

from pglast import split
from pglast.parser import ParseError, parse_sql
from pglast.visitors import Visitor, referenced_relations
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.postgres.walk import text_effects
from svc.testing.gateway.postgres import find_programs
from tests.fault.tally import in_long_form
from tests.kinds.postgres.regress import scripts, texts
from tests.kinds.postgres.test_effects import cases

Name = tuple[str, ...]

NAMES = ("t", "s.t", '"T x"', 's."t.u"', 'S."a""b"')
READS = ("r", "s.r", '"R r"')
WRITERS = (
    "INSERT INTO {t} VALUES (1)",
    "INSERT INTO {t} SELECT * FROM {r}",
    "INSERT INTO {t} (a) VALUES ((SELECT max(a) FROM {r})) ON CONFLICT (a) DO UPDATE SET a = 1",
    "INSERT INTO {t} DEFAULT VALUES RETURNING (SELECT count(*) FROM {r})",
    "UPDATE {t} SET a = 1",
    "UPDATE ONLY {t} AS x SET (a, b) = (SELECT c, d FROM {r}) WHERE x.a = 1 RETURNING *",
    "UPDATE {t} SET a = r.a FROM {r} AS r WHERE true",
    "DELETE FROM {t} USING {r} AS r WHERE EXISTS (SELECT FROM {r})",
    "MERGE INTO {t} AS x USING {r} AS y ON x.a = y.a WHEN MATCHED THEN DELETE",
    "MERGE INTO {t} AS x USING (TABLE {r}) y ON true WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
)
PLAIN = ("{w}", "EXPLAIN ANALYZE {w}", "EXPLAIN {w}", "COPY ({w} RETURNING *) TO STDOUT")
NESTED = (
    "WITH w AS ({w} RETURNING *) SELECT * FROM w",
    "WITH w AS ({w} RETURNING *), v AS (SELECT * FROM w) SELECT * FROM v, {r}",
    "WITH w AS ({w} RETURNING *) INSERT INTO other SELECT * FROM w",
    "WITH RECURSIVE w AS ({w} RETURNING 1) UPDATE other SET a = (SELECT * FROM w)",
)
OTHERS = (
    "SELECT * INTO {t} FROM {r}",
    "SELECT * INTO TEMP {t} FROM {r} ORDER BY 1",
    "CREATE TABLE {t} AS SELECT * FROM {r}",
    "CREATE UNLOGGED TABLE IF NOT EXISTS {t} AS TABLE {r} WITH NO DATA",
    "CREATE MATERIALIZED VIEW {t} AS SELECT * FROM {r}",
    "REFRESH MATERIALIZED VIEW {t}",
    "COPY {t} FROM STDIN",
    "COPY {t} (a) FROM STDIN WITH (FORMAT csv) WHERE a > 1",
    "TRUNCATE {t}, {r} CASCADE",
    "DROP TABLE {t}, {r}",
    "ALTER TABLE {t} ADD COLUMN a int",
    "CREATE TABLE {t} (a int REFERENCES {r} (a))",
    "CREATE INDEX ON {t} (a)",
    "CREATE VIEW {t} AS SELECT * FROM {r}",
    "CREATE RULE x AS ON INSERT TO {t} DO INSTEAD DELETE FROM {r}",
    "CREATE TRIGGER x BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION f()",
    "LOCK TABLE {t}",
    "SELECT * FROM {t} FOR UPDATE",
    "SELECT * FROM {r} AS a JOIN LATERAL (SELECT * FROM {t}) AS b ON true",
    "SELECT 1 FROM {r} UNION SELECT 2 FROM {t}",
    "DECLARE c CURSOR FOR SELECT * FROM {t}, {r}",
    "WITH t AS (SELECT 1) SELECT * FROM t, {r}",
    "WITH a AS (WITH b AS (SELECT * FROM {r}) SELECT * FROM b) SELECT * FROM a, b, {t}",
)


READING = frozenset(
    [
        *("SelectStmt", "ExplainStmt", "VariableShowStmt", "CopyStmt", "PrepareStmt"),
        *("DeclareCursorStmt", "FetchStmt", "ClosePortalStmt", "ExecuteStmt"),
    ]
)
"""Statements that may have no other effect than ``read``."""


class Written(Visitor):
    """The tables whose rows, or whose very being, a statement changes."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[Name] = set()

    def add(self, *relations: Any) -> None:
        """Note where something is written."""
        for one in relations:
            if one is not None:
                self.names.add(tuple(part for part in (one.schemaname, one.relname) if part))

    def visit_InsertStmt(self, ancestors: Any, node: Any) -> None:
        """See the class, as for all that follow."""
        self.add(node.relation)

    visit_UpdateStmt = visit_DeleteStmt = visit_MergeStmt = visit_InsertStmt

    def visit_IntoClause(self, ancestors: Any, node: Any) -> None:
        self.add(node.rel)

    def visit_CopyStmt(self, ancestors: Any, node: Any) -> None:
        if node.is_from:
            self.add(node.relation)

    def visit_TruncateStmt(self, ancestors: Any, node: Any) -> None:
        self.add(*node.relations)

    def visit_CreateStmt(self, ancestors: Any, node: Any) -> None:
        self.add(node.relation)

    visit_AlterTableStmt = visit_IndexStmt = visit_RuleStmt = visit_CreateTrigStmt = (
        visit_CreateStmt
    )
    visit_RefreshMatViewStmt = visit_CreateStmt

    def visit_ViewStmt(self, ancestors: Any, node: Any) -> None:
        self.add(node.view)


class Named(Visitor):
    """The functions that a statement calls; and out of the tree whatever is no table's name.

    pglast's own visitor takes the names in FOR UPDATE OF, which are aliases, and those of
    constraints for tables, and does not know that MERGE may begin with WITH.
    """

    def __init__(self) -> None:
        super().__init__()
        self.functions: set[Name] = set()
        self.results: set[Name] = set()

    def visit_FuncCall(self, ancestors: Any, node: Any) -> None:
        """See the class, as for all that follow."""
        name = tuple(part.sval for part in node.funcname)
        self.functions.add(name[1:] if name[0] == "pg_catalog" else name)

    def visit_LockingClause(self, ancestors: Any, node: Any) -> None:
        node.lockedRels = None

    def visit_ConstraintsSetStmt(self, ancestors: Any, node: Any) -> None:
        node.constraints = None

    def visit_MergeStmt(self, ancestors: Any, node: Any) -> None:
        if node.withClause is not None:
            self.results |= {(each.ctename,) for each in node.withClause.ctes}


def parts_of(name: str) -> Name:
    """A name as SQL writes it, in parts; without the database, which there is but one."""
    found = re.findall(r'"((?:[^"]|"")*)"|([^."]+)', name)
    return tuple(quoted.replace('""', '"') if quoted else plain for quoted, plain in found)[-2:]


def missed(statement: str) -> str:
    """What the second reader finds in it and ours does not; empty if there is nothing."""
    found = text_effects(statement.encode("utf-8"))
    if found.incomplete:
        return ""
    try:
        tree = parse_sql(statement)
    except ParseError:
        return "the second reader cannot read what ours can"
    written = Written()
    written(tree)
    changed = {parts_of(one) for one in found.writes | found.objects}
    named = changed | {parts_of(one) for one in found.reads}
    others = Named()
    others(tree)
    read = {parts_of(one) for one in referenced_relations(tree)} - others.results
    called = others.functions - {parts_of(one) for one in found.functions}
    left = [*(written.names - changed), *(read - named), *called]
    only_reads = all(type(one.stmt).__name__ in READING for one in tree)
    if (written.names or not only_reads) and not found.effects - {"read"}:
        return f"only read: {statement}"
    return f"{left}: {statement}" if left else ""


def own() -> Iterator[str]:
    """Every way to write, in every place, to tables of every sort of name."""
    for table, read in product(NAMES, READS):
        for writer in WRITERS:
            text = writer.format(t=table, r=read)
            plain = text.partition(" RETURNING")[0]
            yield from (form.format(w=plain, r=read) for form in NESTED)
            yield from (form.format(w=plain if "COPY" in form else text) for form in PLAIN)
        yield from (other.format(t=table, r=read) for other in OTHERS)


def installed() -> list[Path]:
    """The scripts that the server of the tests came with, its extensions' included."""
    programs = find_programs()
    if programs is None:
        return []
    at = Path(programs).resolve()
    for place in (
        Path("/usr/share/postgresql", at.parent.name),
        at.parent / "share" / "postgresql",
        at.parent / "share",
    ):
        found = sorted([*place.glob("*.sql"), *place.glob("extension/*.sql")])
        if found:
            return found
    return []


def statements_of(script: Path) -> list[str]:
    """Its statements, without what is psql's; none where it is written for another reader."""
    lines = script.read_text("utf-8").replace("@extschema@", "s").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("\\"))
    try:
        return [str(one) for one in split(text)]
    except ParseError:
        return []  # it holds what CREATE EXTENSION fills in


@in_long_form
class RegressionTests(SynchronousTestCase):
    """With SVC_LONG=1: the texts of PostgreSQL's regression tests, of which most are to pass."""

    def test_scripts(self) -> None:
        """Of 50,000 none does more than we tell, and little is not read but what is wrong SQL."""
        unread: Counter[str] = Counter()
        wrong: list[str] = []
        count = 0
        for script in scripts().values():
            for text in texts(script):
                try:
                    found = text_effects(text.encode("utf-8"))
                except UnicodeEncodeError:
                    continue  # it is of another encoding, and so refused
                count += 1
                if found.incomplete:
                    unread[found.incomplete] += 1
                wrong += filter(None, [missed(text)])
        sys.stdout.write(f"{count} texts, of which not read {dict(unread)}\n")
        self.assertEqual(wrong[:9], [], f"{len(wrong)} of {count}")
        self.assertGreater(count, 50_000)
        self.assertLess(unread.pop("syntax"), 300)
        self.assertLess(unread.total(), 200)


class SecondReaderTests(SynchronousTestCase):
    """No statement writes or reads what we did not tell of it."""

    def assertNoneMissed(self, statements: Iterable[str], least: int) -> None:
        every = list(statements)
        wrong = [said for one in every if (said := missed(one))]
        self.assertEqual(wrong[:9], [], f"{len(wrong)} of {len(every)}")
        self.assertGreaterEqual(len(every), least)
        complete = sum(not text_effects(one.encode("utf-8")).incomplete for one in every)
        self.assertGreater(complete / len(every), 0.95)

    def test_own(self) -> None:
        """Ours, nested into one another."""
        self.assertNoneMissed(own(), 1500)

    def test_table(self) -> None:
        """Those of the table, whose effects are told there by hand."""
        every = [text for _, _, text in cases() if not text_effects(text.encode()).incomplete]
        self.assertNoneMissed(every, 300)

    def test_scripts(self) -> None:
        """Those of PostgreSQL's own scripts, where a server is installed."""
        found = installed()
        if not found:
            raise SkipTest("the PostgreSQL server here has no scripts; Debian's postgresql has")
        self.assertNoneMissed((one for script in found for one in statements_of(script)), 100)
