"""A stock ``psql`` through the gateway: real processes from the local endpoint to a real server."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import SkipTest
from urllib.parse import quote

import pg8000.exceptions
import pg8000.native
import psycopg
import psycopg2.errors
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.postgres import USER
from svc.testing.gateway.processes import Child, Ran, run, svc_command, until
from svc.testing.gateway.settings import POLICY, PROXY
from tests.fault.tally import in_long_form
from tests.interop.stage import INSTALLED, JAVA, NODE
from tests.support.postgres import connected
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.databases import KINDS, NO_DDL, PASSWORD, DatabaseCase, programs_of_18

RUN_BY = "make fault"

ON_REQUEST = """@id("orders-open")
permit (principal, action in [Action::"view", Action::"dbConnect"], resource is Database);

@id("orders-on-request") @requestable
permit (principal, action == Action::"dbQuery", resource is Database)
when { context has approved_request };
"""
BY_TEXT = ON_REQUEST.replace(
    "context has approved_request",
    "context has approved_request && context.approved_request has exact",
)
NO_OPENS = """@id("no-opens") forbid (principal, action == Action::"dbConnect", resource);\n"""
DENIED, MISSING = ["42501", True], ["42P01", False]
PSQL_WORDS = ["psql", "-h", "-p", "5432", "-U", "app", "-d", "postgres"]
AS_APP = "service=orders user=app dbname=postgres"


class PsqlTests(DatabaseCase):
    """Stock clients."""

    def command(
        self, *words: str, role: str = "app", database: str = "postgres", resource: str = "orders"
    ) -> list[str]:
        """Psql on the person's socket."""
        (one,) = [e for e in self.person.status()["endpoints"] if e["resource"] == resource]
        where = ["-h", one["directory"], "-U", role, "-d", database]
        return [self.psql, "-X", "-w", "-A", "-t", "-v", "VERBOSITY=verbose", *where, *words]

    def run_psql(self, text: str, **where: str) -> subprocess.CompletedProcess[str]:
        """One run with a script."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        return subprocess.run(
            self.command(**where),
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environ,
        )

    @proves("G-MET-30", "G-OPEN-81", "G-ROLE-17", "G-ROLE-21", "G-SES-02", "G-SES-03", "G-SES-06")
    def test_statements(self) -> None:
        """SELECT passes, DROP TABLE is denied in PostgreSQL's words, and the session stays true."""
        said = self.run_psql(
            "SELECT id FROM orders;\nDROP TABLE orders;\nSELECT id + 1 FROM orders;\n"
            "BEGIN;\nDROP TABLE orders;\nSELECT 1;\nROLLBACK;\nSELECT 'after';\n"
        )
        out = said.stdout.split()
        self.assertEqual(out, ["7", "8", "BEGIN", "ROLLBACK", "after"], said.stderr)
        found = re.findall(r"HINT:  svc why ([0-9a-f]{32})", said.stderr)
        self.assertEqual(len(found), 2, said.stderr)
        self.assertIn("ERROR:  42501: svc: the statement is not allowed", said.stderr)
        self.assertIn("DETAIL:  Policy: no-ddl. The statement did not reach", said.stderr)
        self.assertIn("ERROR:  25P02: current transaction is aborted", said.stderr)
        log = (self.server.directory / "log").read_text("utf-8")
        self.assertNotIn("DROP TABLE", log)
        self.check_records(found)
        self.check_counts()
        self.check_prepared()
        self.check_refusals()
        self.check_drivers()
        self.check_pgjdbc()
        self.check_pgbench()
        self.check_tls()
        self.check_cancel()
        self.check_command()
        self.check_requests()
        self.check_unrecorded()
        self.check_cut()
        self.assertIn("verified", self.gateway.verify())

    def check_records(self, denied: list[str]) -> None:
        """A record of each statement, and an explanation of a denial."""
        words = ("audit", "show", "--event", "request.decision", "--last", "50", "--json")

        def decisions() -> list[dict[str, Any]]:
            shown = self.gateway.operator(*words).json
            found = [one for one in shown if one["action"] == "db_query"]
            return found if len(found) == 7 else []

        recorded = until("the decisions are in the log", decisions)
        by_id = {one["decision_id"]: one for one in recorded}
        self.assertEqual({one["cedar_action"] for one in recorded}, {"dbQuery"})
        self.assertEqual([by_id[one]["decision"] for one in denied], ["deny", "deny"])
        context = by_id[denied[0]]["request"]["context"]
        self.assertEqual((context["effects"], context["objects"]), (["ddl"], ["orders"]))
        self.assertEqual((context["database"], context["db_role"]), ("postgres", "app"))
        self.assertNotIn("DROP", str(recorded))
        why = self.person.svc("why", denied[0]).checked().stdout
        for word in ("deny", "dbQuery", "no-ddl"):
            self.assertIn(word, why)
        several = self.person.svc("why", denied[0][:10])  # which names the Proxy alone
        self.assertEqual((several.status, several.stdout), (1, ""))
        self.assertIn("type more digits", several.stderr)
        counted = {
            decision: self.gateway.metric(
                PROXY, "svc_request_authorize_total", kind="db_query", decision=decision
            )
            for decision in ("allow", "deny")
        }
        self.assertEqual(counted, {"allow": 5, "deny": 2})

    def check_prepared(self) -> None:
        """PREPARE, EXECUTE and a long text pass by what they do; a syntax error is told as one."""
        said = self.run_psql(
            "PREPARE p(int) AS SELECT id FROM orders WHERE id = $1;\nEXECUTE p(7);\n"
            "DEALLOCATE p;\nEXECUTE p(7);\nSELECT 1 FORM x y;\n"
            f"SELECT length('{'y' * 20_000}');\n"
        )
        self.assertEqual(said.stdout.split(), ["PREPARE", "7", "DEALLOCATE", "20000"], said.stderr)
        self.assertIn("no statement of this name was prepared in this session", said.stderr)
        self.assertIn('ERROR:  42601: syntax error at or near "x"\nLINE 1:', said.stderr)

    def authorized(self, kind: str, decision: str) -> float:
        """How many requests of this kind the Proxy has decided so."""
        found: float = self.gateway.metric(
            PROXY, "svc_request_authorize_total", kind=kind, decision=decision
        )
        return found

    def check_counts(self) -> None:
        """One session with two statements is one db_connect and two db_query."""
        counts = [self.authorized(kind, "allow") for kind in ("db_connect", "db_query")]
        self.assertEqual(self.run_psql("SELECT 1;\nSELECT 2;\n").stdout.split(), ["1", "2"])
        now = [self.authorized(kind, "allow") for kind in ("db_connect", "db_query")]
        self.assertEqual(now, [counts[0] + 1, counts[1] + 2])

    def check_pgbench(self) -> None:
        """The stock load of PostgreSQL in its three ways to ask: no transaction fails."""
        pgbench = shutil.which("pgbench", path=f"{self.programs()}:{os.environ.get('PATH', '')}")
        if pgbench is None:
            return  # a server without its load generator
        direct = ["-h", str(self.server.directory), "-p", self.port, "-U", USER, "postgres"]
        subprocess.run([pgbench, "-i", "-q", *direct], capture_output=True, check=True)
        with connected(self.url) as cursor:
            cursor.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
        host, port = self.where()
        through = ["-h", host, "-p", str(port), "-U", "app", "postgres"]
        for words in (("-S",), ()):
            for how in ("simple", "extended", "prepared"):
                command = [pgbench, "-n", "-c", "2", "-t", "3", "-M", how, *words, *through]
                said = subprocess.run(command, capture_output=True, text=True, check=False)
                told = said.stdout + said.stderr
                self.assertEqual(said.returncode, 0, told)
                self.assertIn("transactions actually processed: 6/6", told)

    def check_refusals(self) -> None:
        """What does not open says why in PostgreSQL's words, and holds no secret."""
        for where, told in (
            ({"role": "nobody"}, "no credential for the role"),
            ({"role": "wrong"}, "did not accept the Connector's credential"),
            ({"database": "nowhere"}, "has no such database"),
            ({"resource": "false"}, "did not prove that it is the one configured"),
            ({"database": "no where"}, "parameter database: does not have the form"),
        ):
            said = self.run_psql("SELECT 1;\n", **where)
            self.assertEqual(said.returncode, 2, said.stderr)
            self.assertIn("FATAL", said.stderr)
            self.assertIn(told, said.stderr)
            self.assertNotIn("not it", said.stderr)

    def check_drivers(self) -> None:
        """Drivers report a denial as a permission error, and go on in the same session."""
        host, port = self.where()
        check_psycopg2(self, host, port)
        check_psycopg3(self, host, port)
        check_pg8000(self, host, port)
        check_asyncpg(host, port)
        log = (self.server.directory / "log").read_text("utf-8")
        self.assertNotIn("DROP TABLE", log)
        self.check_node(host, port)

    def check_node(self, host: str, port: int) -> None:
        """The two clients of Node.js: the same as at the server itself, but for what is denied."""
        if not INSTALLED.exists() or shutil.which("node") is None:
            return  # the interop tests say so
        for client in ("pg", "postgres"):
            direct, through = (
                json.loads(subprocess.check_output(["node", NODE / "postgres.js", client, *at]))
                for at in ((str(self.server.directory), self.port), (host, str(port)))
            )
            self.assertEqual(direct.count(["42P01", False]), 3, direct)
            self.assertEqual(through, [DENIED if one == MISSING else one for one in direct])

    def check_pgjdbc(self) -> None:
        """Java's driver: the same as at the server itself, but for what is denied."""
        try:
            java = pgjdbc()
        except SkipTest:
            return  # DriverOfJavaTests say so
        host, port = self.where()
        places = (f"127.0.0.1:{self.port}", f"&password={quote(PASSWORD)}"), (f"{host}:{port}", "")
        urls = [f"jdbc:postgresql://{at}/postgres?user=app{more}" for at, more in places]
        words = [*java, str(JAVA / "Postgres.java"), *urls]
        said = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(said.returncode, 0, said.stderr)
        direct, through = (part.splitlines() for part in said.stdout.split("\n\n")[:2])
        self.assertEqual(direct.count("denied: 42P01 false"), 2, direct)
        for told in ("denied copy: 42501 false", "large object, by FunctionCall: true"):
            self.assertEqual(direct.count(told), 2, direct)
            no = told.partition(":")[0] + ": 42P01 false"
            direct = [no if one == told else one for one in direct]
        self.assertEqual(through, [one.replace("42P01 false", "42501 true") for one in direct])

    def check_tls(self) -> None:
        """Clients that insist on TLS have it at the local port, and are decided as the others."""
        host, port = self.where()
        conninfo = f"host={host} port={port} user=app dbname=postgres sslmode=require"
        words = [self.psql, "-X", "-w", "-A", "-t", conninfo, "-c", r"\conninfo", "-c", "SELECT 5"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertRegex(said, r"SSL connection \(protocol: TLSv1\.3,")
        self.assertTrue(said.endswith("\n5\n"), said)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            self.assertEqual(connection.pgconn.ssl_in_use, 1)
            text = "x" * 1_000_000
            self.assertEqual(connection.execute("SELECT %s", (text,)).fetchone(), (text,))
            with self.assertRaises(psycopg.errors.InsufficientPrivilege):
                connection.execute("DROP TABLE orders")
            self.assertEqual(connection.execute("SELECT 6").fetchone(), (6,))

    def check_command(self) -> None:
        """``svc db`` is psql on the right socket; without psql it says what to type."""
        words = svc_command("db", "orders", "--role", "app", "--database", "postgres")
        sql = b"SELECT id FROM orders WHERE id = 7;\n"
        said = run(words, self.person.home, {"PGPORT": "1", "PGHOST": "nowhere"}, stdin=sql)
        self.assertIn("\n  7\n", said.checked().stdout)
        told = run(words, self.person.home, {"PATH": "/nowhere"})
        self.assertEqual(told.status, 1, told)
        self.assertEqual(told.stdout.split()[:2] + told.stdout.split()[3:], PSQL_WORDS)
        file = re.search(r"PGSERVICEFILE=(\S+)", told.stderr)
        assert file is not None, told.stderr
        service = [self.psql, "-X", "-w", "-c", "SELECT id FROM orders WHERE id = 7", AS_APP]
        found = run(service, self.person.home, {"PGSERVICEFILE": file[1]}).checked()
        self.assertIn("\n  7\n", found.stdout)
        none = run(svc_command("db", "nothing"), self.person.home)
        self.assertEqual(none.status, 1, none)
        self.assertIn("nothing: you may use no resource of this name", none.stderr)

    def check_cancel(self) -> None:
        """Ctrl-C in psql stops its own statement and no other session's; the session goes on."""
        host, port = self.where()
        other = psycopg2.connect(host=host, port=port, user="app", dbname="postgres")
        with closing(other), other.cursor() as cursor, ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(cursor.execute, "SELECT pg_sleep(120)")
            running = self.started("-c", "SELECT pg_sleep(120)")
            until("both wait at the server", lambda: self.sleeping() == 2)
            running.send_signal(signal.SIGINT)
            _, told = running.communicate(timeout=60)
            self.assertIn("ERROR:  57014: canceling statement due to user request", told)
            self.assertEqual(self.sleeping(), 1)
            other.cancel()
            self.assertRaises(psycopg2.errors.QueryCanceled, waiting.result, 20)
            other.rollback()
            cursor.execute("SELECT 'on'")
            self.assertEqual(cursor.fetchone(), ("on",))

    def sleeping(self) -> int:
        """How many of the server's sessions wait in pg_sleep."""
        with connected(self.url) as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
            found: int = cursor.fetchone()[0]
        return found

    def started(self, *words: str) -> subprocess.Popen[str]:
        """Psql, which runs on."""
        running = subprocess.Popen(
            self.command(*words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(running.kill)
        return running

    def check_requests(self) -> None:
        """A denied statement's HINT says how to ask; one passes by an approval for one."""
        self.gateway.set_policy(POLICY + NO_DDL + ON_REQUEST)
        eve, approver = self.gateway.add_person("eve"), self.person
        config = eve.directory / "client.toml"
        config.write_text(f"plugins.kinds = {KINDS}\n{config.read_text('utf-8')}", "utf-8")
        # In a home where nobody has joined: whatever is typed there has to name the directory.
        self.elsewhere = self.server.directory / "elsewhere"
        self.elsewhere.mkdir()
        eve.resident = Child(
            name="up-eve",
            words=svc_command("up", "--dir", str(eve.directory)),
            home=self.elsewhere,
            log=self.elsewhere / "up.log",
        )
        eve.up("orders")
        self.person = eve
        try:
            said = self.run_psql("SELECT id FROM orders;\n")
            found = re.search(
                r"HINT:  To ask for access: (svc .*); to see why: (svc .*)", said.stderr
            )
            assert found is not None, said.stderr
            own = f" --dir {shlex.quote(str(eve.directory))}"
            self.assertEqual(found[1], f"svc request orders --action dbQuery{own}")
            self.assertTrue(found[2].endswith(own), found[2])
            self.assertIn("dbQuery", self.typed(found[2]).checked().stdout)
            self.assertIn("ERROR:  42501", said.stderr)
            id = self.typed(found[1], "--uses", "1", "--json").checked().json["id"]
            approver.svc("requests", "approve", id, "--yes").checked()
            said = self.run_psql("SELECT id FROM orders;\nSELECT id FROM orders;\n")
            self.assertEqual(said.stdout.split(), ["7"], said.stderr)
            self.assertIn("ERROR:  42501", said.stderr)
            self.gateway.set_policy(POLICY + NO_DDL + BY_TEXT)
            self.check_exact_text(eve, approver)
        finally:
            self.person = approver
        self.gateway.set_policy(POLICY + NO_DDL)

    def typed(self, command: str, *more: str) -> Ran:
        """Run a command as it was printed, where nobody has joined in the home."""
        return run(svc_command(*shlex.split(command)[1:], *more), self.elsewhere)

    def check_exact_text(self, eve: GatewayPerson, approver: GatewayPerson) -> None:
        """One statement passes once, byte for byte as its approver saw it, and nothing else."""
        with connected(self.url) as cursor:
            cursor.execute("INSERT INTO orders VALUES (71)")
        statement = "DELETE FROM orders\n\tWHERE id = 71;"
        said = self.run_psql(f"{statement}\n")
        hint = re.search(r"HINT:  To ask for access: (svc request --decision .*);", said.stderr)
        assert hint is not None, said.stderr
        told = self.typed(hint[1], "--yes", "--reason", "wrong order", "--json").checked()
        self.assertRegex(told.stderr, r"resource +orders\naction +dbQuery, one exact text\n")
        self.assertRegex(told.stderr, r"parameters +database=postgres,db_role=app\n")
        entry = told.json
        self.assertEqual((entry["exact_text"], entry["asked_uses"]), (statement, 1))
        self.assertEqual(entry["parameters"], {"database": "postgres", "db_role": "app"})
        id = entry["id"]
        again = hint[1].partition(" --dir ")[0].split()[1:]
        self.assertIn("does not keep", approver.svc(*again, "--yes").stderr)
        shown = approver.svc("requests", "show", id).checked().stdout
        self.assertIn("  | DELETE FROM orders\\n\n  | \\tWHERE id = 71;", shown)
        approver.svc("requests", "approve", id, "--yes").checked()
        for other in (
            "DELETE FROM orders\n\tWHERE id = 71 ;",
            "DELETE FROM orders\n\tWHERE id = 72;",
            "DELETE FROM orders\n WHERE id = 71;",
        ):
            self.assertIn("ERROR:  42501", self.run_psql(f"{other}\n").stderr, other)
        elsewhere = self.run_psql(f"{statement}\n", database="template1")
        self.assertIn("ERROR:  42501", elsewhere.stderr)
        host, port = self.where()
        with (
            psycopg.connect(
                host=host, port=port, user="app", dbname="postgres", autocommit=True
            ) as apart,
            self.assertRaises(psycopg.errors.InsufficientPrivilege) as caught,
        ):
            apart.execute("DELETE FROM orders WHERE id = %s", (71,))
        hint = caught.exception.diag.message_hint
        self.assertIn("a statement whose parameters are sent apart has none", hint)
        told = eve.svc("why", re.findall("svc why (\\w+)", hint)[0]).checked()
        self.assertIn("on request, orders-on-request", told.stdout)
        self.assertIn("can approve only its exact text, and this Proxy has no text", told.stderr)
        self.assertNotIn("svc request", told.stderr)
        said = self.run_psql(f"{statement}\n{statement}\n")
        self.assertEqual(said.stderr.count("ERROR:  42501"), 1, said.stderr)
        with connected(self.url) as cursor:
            cursor.execute("SELECT count(*) FROM orders WHERE id = 71")
            self.assertEqual(cursor.fetchone(), (0,))
        shown = approver.svc("requests", "show", id).checked().stdout
        self.assertIn("not kept any more", shown)
        self.gateway.verify()

    def check_unrecorded(self) -> None:
        """What a full disk has no room to record does not reach the server, and says why."""
        running = self.started()
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write("SELECT 'here';\n")
        running.stdin.flush()
        self.assertEqual(running.stdout.readline(), "here\n")
        pid = self.gateway.child(PROXY).pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            _, told = running.communicate("SELECT svc_not_there();\n", timeout=60)
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        self.assertIn("FATAL:  57P01: svc: the session has ended: the Proxy could not rec", told)
        log = (self.server.directory / "log").read_text("utf-8")
        self.assertNotIn("svc_not_there", log)
        until("statements pass", lambda: self.run_psql("SELECT 1;\n").stdout == "1\n")

    def check_cut(self) -> None:
        """A session that the policy no longer allows ends with the reason in its own words."""
        running = self.started()
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write("SELECT 'here';\n")
        running.stdin.flush()
        self.assertEqual(running.stdout.readline(), "here\n")
        self.gateway.set_policy(POLICY + NO_OPENS)
        until("the cut in the status", lambda: "policy_changed" in self.reasons())
        _, told = running.communicate("SELECT 'there';\n", timeout=60)
        self.assertIn("FATAL:  57P01: svc: the session has ended: the policy no longer", told)
        self.check_not_opened()

    def reasons(self) -> set[str]:
        """Why sessions were ended, as the person's status has it."""
        return {one["reason"] for one in self.person.status().get("ended", ())}

    def check_not_opened(self) -> None:
        """Where the policy opens no session, the client is told, and the server sees no login."""
        logins, denials = self.logins(), self.authorized("db_connect", "deny")
        said = self.run_psql("SELECT 1;\n")
        self.assertEqual((said.returncode, said.stdout), (2, ""))
        self.assertRegex(said.stderr, r"FATAL:  svc: .*\(reason: denied\)")
        self.assertEqual(self.authorized("db_connect", "deny"), denials + 1)
        self.assertEqual(self.logins(), logins)

    def logins(self) -> int:
        """How many logins of the Connector the server has logged."""
        log = (self.server.directory / "log").read_text("utf-8")
        return log.count("connection authorized: user=app")


def pgjdbc() -> list[str]:
    """Java with its driver, as a program of one file is run."""
    java, driver = stock_tool("java"), stock_tool("/usr/share/java/postgresql.jar")
    return [java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", driver]


class DriverOfJavaTests(SynchronousTestCase):
    """Whether the tests above have driven pgjdbc."""

    def test_installed(self) -> None:
        """Java and its driver are there, or what is missing is said."""
        self.assertIn("-cp", pgjdbc())


@in_long_form
class NewestServerTests(PsqlTests):
    """With SVC_LONG=1: PostgreSQL 18, and no TLS between Connector and server."""

    has_tls = False

    def programs(self) -> Path:
        """See the base."""
        return programs_of_18()


def check_psycopg2(case: PsqlTests, host: str, port: int) -> None:
    """The simple protocol, COPY both ways, savepoints."""
    connection = psycopg2.connect(host=host, port=port, user="app", dbname="postgres")
    with closing(connection), connection.cursor() as cursor:
        cursor.execute("SAVEPOINT before")
        with case.assertRaises(psycopg2.errors.InsufficientPrivilege) as caught:
            cursor.execute("DROP TABLE orders")
        case.assertIn("svc why ", caught.exception.diag.message_hint)
        cursor.execute("ROLLBACK TO SAVEPOINT before")
        cursor.copy_expert("COPY orders FROM STDIN", io.StringIO("8\n9\n"))
        out = io.StringIO()
        cursor.copy_expert("COPY orders TO STDOUT", out)
        case.assertEqual(out.getvalue(), "7\n8\n9\n")
        cursor.execute("SELECT repeat('x', 1000000)")
        case.assertEqual(len(cursor.fetchone()[0]), 1_000_000)
        connection.rollback()


def check_psycopg3(case: PsqlTests, host: str, port: int) -> None:
    """Prepared statements, pipelines, a statement that fails in the midst of one."""
    connection = psycopg.connect(
        host=host, port=port, user="app", dbname="postgres", autocommit=True, prepare_threshold=0
    )
    with connection:
        for number in (1, 2):
            row = connection.execute("SELECT id + %s FROM orders", (number,)).fetchone()
            case.assertEqual(row, (7 + number,))
        with connection.pipeline() as pipeline:
            first = connection.execute("SELECT 1")
            with case.assertRaises(psycopg.errors.InsufficientPrivilege):
                connection.execute("DROP TABLE orders")
                connection.execute("SELECT 2")
                first.fetchone()
                connection.execute("SELECT 3").fetchone()
            with contextlib.suppress(psycopg.errors.PipelineAborted):
                pipeline.sync()  # what was asked behind the error is answered before it ends
        case.assertEqual(connection.execute("SELECT 4").fetchone(), (4,))
        denied = case.assertRaises(psycopg.errors.InsufficientPrivilege)
        with denied, connection.transaction():
            connection.execute("INSERT INTO orders VALUES (100)")
            connection.execute("DROP TABLE orders")
        row = connection.execute("SELECT count(*) FROM orders WHERE id = 100").fetchone()
        case.assertEqual(row, (0,))


def check_pg8000(case: PsqlTests, host: str, port: int) -> None:
    """Unnamed statements of the extended protocol."""
    with closing(pg8000.native.Connection("app", host=host, port=port, database="postgres")) as it:
        case.assertEqual(it.run("SELECT id FROM orders WHERE id = :id", id=7), [[7]])
        with case.assertRaises(pg8000.exceptions.DatabaseError) as caught:
            it.run("DROP TABLE orders")
        case.assertEqual(caught.exception.args[0]["C"], "42501")
        case.assertEqual(it.run("SELECT 1"), [[1]])


def check_asyncpg(host: str, port: int) -> None:
    """Named statements, cursors, many rows at once; in a process with a reactor of its own."""
    words = [sys.executable, "-c", ASYNCPG, host, str(port)]
    subprocess.run(words, check=True, timeout=60)


ASYNCPG = """
import asyncio, asyncpg, sys

async def denied(running):
    try:
        await running
    except asyncpg.InsufficientPrivilegeError as error:
        assert error.hint.startswith("svc why "), error.hint
    else:
        raise AssertionError("it was not denied")

async def run(host, port):
    it = await asyncpg.connect(host=host, port=port, user="app", database="postgres")
    assert await it.fetchval("SELECT id FROM orders WHERE id = $1", 7) == 7
    await denied(it.execute("DROP TABLE orders"))
    await denied(it.fetch("DROP TABLE orders"))
    assert await it.fetchval("SELECT 1") == 1
    async with it.transaction():
        await it.executemany("INSERT INTO orders VALUES ($1)", [(n,) for n in range(200, 700)])
        found = [row[0] async for row in it.cursor("SELECT id FROM orders WHERE id >= 200")]
        assert len(found) == 500, found
        await it.execute("DELETE FROM orders WHERE id >= 200")
    await it.close()

asyncio.run(run(sys.argv[1], int(sys.argv[2])))
"""
