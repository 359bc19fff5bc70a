"""Every check: nothing is found at a gateway that is in order, and each finding is provoked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from attrs import evolve

from svc import __version__
from svc.config import Address, ResourceTable, StoreUrl
from svc.config.values import SourceTable
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.scope import DiscoveryScope
from svc.model.doctor import CheckSeverity
from svc.ops.doctor import policy, room
from svc.ops.doctor.checks import CHECKS, IDS
from svc.ops.doctor.policy import permits, why_refused
from svc.ops.doctor.run import examine
from tests.ops.doctor.ended import NODES, PERSON, CopyCase
from tests.support.logged import logged
from tests.support.proof import proves
from tests.support.tools import stock_tool

DAY = 86400.0
TOLD_ALWAYS = {
    ("authority", "config.settings"),
    ("authority", "audit.witness"),
    ("proxy", "network.authority"),
    ("connector", "network.listen"),  # its only port is chosen at each start
    ("connector", "network.proxies"),
    ("connector", "policy.targets"),
    (PERSON, "network.proxies"),
    (PERSON, "service.resident"),
    *((role, "service.running") for role in NODES),
}
"""Of a gateway as ``svc init`` makes it, with every role stopped."""


class OrderTests(CopyCase):
    """A gateway that is in order."""

    @proves("G-DOC-08")
    def test_every_check_of_every_role(self) -> None:
        """Nothing fails, and what is told is known; each role has checks of its own."""
        met = dict[str, set[str]]()
        for role in (*NODES, PERSON):
            report = self.copy.report(role)
            met[role] = {one.id for one in report.checks}
            told = {(role, one.id) for one in report.checks if one.severity}
            self.assertLessEqual(told, TOLD_ALWAYS, report.checks)
            self.assertFalse(report.is_finding)
        self.assertEqual(set().union(*met.values()), set(IDS))
        self.assertEqual(len({frozenset(ids) for ids in met.values()}), len(met))

    @proves("G-DOC-02", "X-17")
    def test_nothing_is_changed(self) -> None:
        """No file comes, goes or changes, not its mode either, whatever is checked."""
        before = self.copy.files()
        for role in (*NODES, PERSON):
            self.copy.report(role)
        self.assertEqual(self.copy.files(), before)

    @proves("G-DOC-06")
    def test_twice(self) -> None:
        """Two runs over the same state say the same."""
        for role in NODES:
            # Others write on the same disk meanwhile.
            first, second = (
                re.sub(r"[\d.]+ [KMGT]iB", "so much", repr(self.copy.report(role)))
                for _ in range(2)
            )
            self.assertEqual(first, second)

    def test_ids_are_listed_in_the_guide(self) -> None:
        """The how-to page has every check, and none that is not there."""
        page = Path(__file__).parents[3] / "docs" / "how-to" / "doctor.md"
        rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| `")]
        named = [row.split("`")[1] for row in rows]
        self.assertEqual([one for one in named if "." in one], list(IDS))


class ConfigTests(CopyCase):
    """``config.*``."""

    @proves("G-CFG-20")
    def test_file_and_endpoints(self) -> None:
        """Version, role, file and every endpoint are told, those that are off as well."""
        self.assert_ok("proxy", "config.file", __version__, "role proxy", "proxy.toml")
        ends = self.copy.settings("proxy").endpoints
        self.assert_ok(
            "proxy",
            "config.endpoints",
            f"public_listen {ends.public_listen}",
            f"authority {ends.authority[0]}",
            "authority_failover none",
        )

    def test_plugins(self) -> None:
        """A drop-in that is named and not there."""
        self.assert_ok("proxy", "config.plugins")
        self.assert_found(
            "proxy", "config.plugins", "fail", "nosuch", "ssh", plugins__kinds=("tcp", "nosuch")
        )

    def test_audit_requests(self) -> None:
        """Buffered records are an operator's choice, and told."""
        self.assert_ok("proxy", "config.audit_requests")
        self.assert_found(
            "proxy", "config.audit_requests", "info", "buffered", audit__requests="buffered"
        )

    def test_discovery(self) -> None:
        """Scopes of which nothing is admitted, or waits; sources that are not there, or refused."""
        self.assert_ok("authority", "config.scopes", "none")
        both = (OnwardAuth.CERTIFICATE, OnwardAuth.PASSTHROUGH)
        for severity, word, scope in (
            ("warn", "plugins.kinds", DiscoveryScope(name="lab", kinds=("vnc",))),
            ("info", "mode_required", DiscoveryScope(name="lab", kinds=("ssh",), onward_auth=both)),
        ):
            self.assert_found(
                "authority", "config.scopes", severity, word, discovery__auto_scopes=(scope,)
            )
        self.assert_ok("connector", "config.sources", "none")
        for word, source in (("plugins.sources", "magic"), ("path: required", "file")):
            one = SourceTable(
                name="rack", source=source, every_secs=10.0, table={}, key_path="connector.x[0]"
            )
            self.assert_found(
                "connector", "config.sources", "fail", word, connector__discovery_sources=(one,)
            )

    def test_settings(self) -> None:
        """What is allowed and should be known."""
        self.assert_ok("authority", "config.settings", store_auto_migrate=False)
        for role, severity, word, changes in (
            ("authority", "info", "store_auto_migrate", {}),
            ("authority", "info", "break_glass", {"policy__break_glass": ("local:0",)}),
            ("authority", "info", "device", {"oidc__flows": ("code", "device")}),
            ("proxy", "info", "public_plaintext", {"proxy__public_plaintext": True}),
            ("proxy", "info", "tls_min_version", {"proxy__tls_min_version": "1.2"}),
            (PERSON, "warn", "unprotected_loopback", {"client__unprotected_loopback": True}),
        ):
            self.assert_found(role, "config.settings", severity, word, **changes)


class StoreTests(CopyCase):
    """``store.*``."""

    @proves("G-DOC-02", "X-17")
    def test_missing_store(self) -> None:
        """A store that is not there is named, not made, and everything else says why it is not."""
        path = self.copy.base / "nowhere" / "store.db"
        url = StoreUrl("sqlite", f"//{path}".replace("//", "", 1))
        report = self.copy.report("authority", store_url=url)
        found = {one.id: one for one in report.checks}
        self.assertIs(found["store.reachable"].severity, CheckSeverity.FAIL)
        self.assertIn(str(path), found["store.reachable"].message)
        self.assertIn("not checked", found["audit.queue"].message)
        self.assertFalse(path.parent.exists())
        self.assertNotIn("svc init", found["store.reachable"].hint)

    def test_before_the_first_start(self) -> None:
        """What the Authority has not made yet is no fault; with an anchor a store is lost."""
        state = self.copy.state("authority")
        for path in state.iterdir():
            if path.name != "keys":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        report = self.copy.report("authority")
        self.assertFalse(report.is_finding, report.checks)
        self.assertEqual(report.summary["warn"], 0)
        self.assert_found("authority", "store.reachable", "info", "at its first start")
        self.assert_found("authority", "store.migrations", "info", "not checked")
        (state / "anchor").mkdir(mode=0o700)
        self.assert_found("authority", "store.reachable", "fail", "restore")
        (state / "anchor").rmdir()
        shutil.rmtree(state / "keys")
        self.assert_found("authority", "store.reachable", "fail", "restore")

    def test_unreadable_store(self) -> None:
        """Something else in its place is no finding of the checks that would have read it."""
        (self.copy.state("authority") / "store.db").write_bytes(b"no database " * 1000)
        report = self.copy.report("authority")
        failed = [one.id for one in report.checks if one.severity is CheckSeverity.FAIL]
        self.assertEqual(failed, ["store.reachable", "store.migrations"])

    @proves("G-DOC-12", "U-MIG-12")
    def test_migrations(self) -> None:
        """Current, pending, unknown to this build, and broken in the middle."""
        self.assert_ok("authority", "store.migrations", "current: m")
        copied = "INSERT INTO svc_migrations SELECT 'm9999_new', checksum, 0, 'x' FROM"
        self.copy.sql(f"{copied} svc_migrations LIMIT 1")
        self.assert_found("authority", "store.migrations", "fail", "unknown-applied", "m9999_new")
        self.copy.sql(
            "DELETE FROM svc_migrations WHERE id IN ('m9999_new', (SELECT max(id) FROM "
            "svc_migrations WHERE id < 'm9999'))"
        )
        self.assert_found("authority", "store.migrations", "warn", "pending: m", "store migrate")
        self.copy.sql("DELETE FROM svc_migrations WHERE id > 'm0080'")
        found = self.assert_found("authority", "store.migrations", "warn", "pending: m0080", "(")
        self.assertLess(len(found.message), 120)
        self.copy.sql("DELETE FROM svc_migrations WHERE id LIKE 'm0005%'")
        self.assert_found("authority", "store.migrations", "fail", "broken", "m0005")

    @proves("U-BAK-06")
    def test_pairing(self) -> None:
        """Another store than the one that keys and anchor were kept of."""
        self.assert_ok("authority", "store.pairing")
        self.copy.sql("DELETE FROM audit_log WHERE seq > 5")
        self.assert_found("authority", "store.pairing", "fail")
        self.copy.sql("UPDATE store_facts SET value = 'other.example' WHERE name = 'cluster'")
        self.copy.sql("DELETE FROM state_changes")
        self.assert_found("authority", "store.pairing", "fail")

    def test_half_a_pair(self) -> None:
        """Without the keys it fails; without the anchor there is nothing to compare with."""
        state = self.copy.state("authority")
        (state / "anchor").rename(state / "moved")
        self.assert_found("authority", "store.pairing", "info", "not checked")
        (state / "moved").rename(state / "anchor")
        (state / "keys").rename(state / "moved")
        self.assert_found("authority", "store.pairing", "fail", "no keys")

    def test_private(self) -> None:
        """A store that other users can read, and a directory that they can write to."""
        self.assert_ok("authority", "store.private")
        state = self.copy.state("authority")
        (state / "store.db").chmod(0o644)
        self.assert_found("authority", "store.private", "fail", "store.db", "chmod go-rwx")
        state.chmod(0o770)
        self.assert_found("authority", "store.private", "fail", "chmod go-w ")

    def test_disk_room(self) -> None:
        """Little room is a warning, hardly any a failure; of a database server nothing is known."""
        self.assert_ok("authority", "store.disk_room")
        self.patch(room, "ENOUGH", 1 << 60)
        self.assert_found("authority", "store.disk_room", "warn", "free")
        self.assert_found("proxy", "service.disk_room", "warn", "free")
        self.patch(room, "LEAST", 1 << 60)
        self.assert_found("authority", "store.disk_room", "fail", "free")

    def test_database_that_is_away(self) -> None:
        """It is asked once, and no part of its URL that could be a secret is told."""
        rest = "svc:hush@127.0.0.1:9/svc?sslpassword=hush"
        url = StoreUrl("postgresql", rest)
        stores = ("postgresql",)
        report = self.copy.report("authority", store_url=url, plugins__stores=stores)
        found = {one.id: one for one in report.checks}
        self.assertIs(found["store.reachable"].severity, CheckSeverity.FAIL)
        self.assertNotIn("hush", repr(report))


class AuditTests(CopyCase):
    """``audit.*``."""

    @proves("G-DOC-11", "G-OPEN-15", "U-NOTE-24")
    def test_queue(self) -> None:
        """The rows that wait are counted, and those of them that are held."""
        self.assert_ok("authority", "audit.queue", "0 rows waiting (0 held)")
        self.queue(1, b"s", None)
        self.assert_found("authority", "audit.queue", "info", "1 rows waiting (0 held)")
        self.queue(2, b"", "unsigned")
        self.assert_found(
            "authority", "audit.queue", "warn", "2 rows waiting (1 held)", "outbox list"
        )

    def queue(self, number: int, signature: bytes, hold: str | None) -> None:
        """Put a row in the queue."""
        row = "INSERT INTO outbox VALUES (?, 'o', 's', 1, x'', x'', x'', ?, ?, 1, 0, ?, NULL)"
        self.copy.sql(row, number, signature, str(number).encode(), hold)

    @proves("U-FLT-06")
    def test_queue_of_before(self) -> None:
        """Rows without a signature, as releases up to 0.10.0-rc.6 queued them, are warned of."""
        self.queue(1, b"s", None)
        self.queue(2, b"", None)
        self.assert_found(
            "authority",
            "audit.queue",
            "warn",
            "2 rows waiting (0 held), of which 1 have no signature and will be held as unsigned",
            "before the upgrade",
        )

    def test_head(self) -> None:
        """No head at all, at once and for long; and one that records have waited for too long."""
        self.assert_ok("authority", "audit.head", "covers")
        anchor = self.copy.state("authority") / "anchor"
        lines = (anchor / "heads.jsonl").read_bytes().splitlines(keepends=True)
        (anchor / "heads.jsonl").write_bytes(lines[0])
        (anchor / "latest").unlink()
        self.copy.at += 3600
        self.assert_found("authority", "audit.head", "warn", "has waited")
        shutil.rmtree(anchor)
        self.assert_found("authority", "audit.head", "fail", "no signed head")

    def test_log(self) -> None:
        """A record that was changed, and one that is missing."""
        self.assert_ok("authority", "audit.log", "audit verify")
        self.copy.sql("UPDATE audit_log SET canonical = canonical || ' ' WHERE seq = 7")
        self.assert_found("authority", "audit.log", "fail", "record 7")
        self.copy.sql("DELETE FROM audit_log WHERE seq = 5")
        self.assert_found("authority", "audit.log", "fail", "record 5 is missing")

    def test_anchor(self) -> None:
        """A file of heads that cannot be read."""
        self.assert_ok("authority", "audit.anchor")
        (self.copy.state("authority") / "anchor" / "latest").write_bytes(b"{}\n")
        self.assert_found("authority", "audit.anchor", "fail", "latest")

    def test_pipes(self) -> None:
        """A pipe where a file should be keeps no check waiting for whoever writes to it."""
        anchor = self.copy.state("authority") / "anchor"
        kept = self.copy.state("proxy") / "snapshot" / "audit-head"
        kept.parent.mkdir(exist_ok=True)
        witness = self.copy.base / "witness.jsonl"
        for path in (anchor / "latest", kept, witness):
            path.unlink(missing_ok=True)
            os.mkfifo(path)
        said = "is not a regular file"
        self.assert_found("authority", "audit.anchor", "fail", said)
        self.assert_found("proxy", "identity.clock", "fail", said)
        named = (f"file://{witness}",)
        self.assert_found("authority", "audit.witness", "fail", said, audit__witness=named)

    def test_witness(self) -> None:
        """Nobody, a file without heads, a file with them, and a server, which is not asked."""
        self.assert_found("authority", "audit.witness", "info", "names nobody")
        file = self.copy.base / "witness.jsonl"
        named = (f"file://{file}",)
        self.assert_found("authority", "audit.witness", "warn", str(file), audit__witness=named)
        shutil.copy(self.copy.state("authority") / "anchor" / "latest", file)
        self.assert_ok("authority", "audit.witness", str(file), audit__witness=named)
        server = ("https://witness.example/heads",)
        self.assert_found("authority", "audit.witness", "info", "not asked", audit__witness=server)

    def test_unsigned_rows(self) -> None:
        """A row that somebody changed by SQL is named."""
        self.assert_ok("authority", "audit.unsigned_rows")
        self.copy.sql("UPDATE persons SET name = 'eve' WHERE name = 'ada'")
        self.assert_found("authority", "audit.unsigned_rows", "fail", "1 (person:")

    def test_unreadable_rows(self) -> None:
        """A row that says what no such row can is told, and nothing is logged of it."""
        events = logged(self)
        self.copy.sql("UPDATE person_certificates SET person_id = CAST(x'ff' AS TEXT)")
        self.assert_found("authority", "audit.unsigned_rows", "fail", "certificate cannot be read")
        self.assertEqual(events, [])


class ClusterTests(CopyCase):
    """``cluster.*``."""

    @proves("U-NOTE-35")
    def test_root(self) -> None:
        """The fingerprint is the one that openssl shows, for every role."""
        openssl = stock_tool("openssl")
        root = str(self.copy.state("authority") / "keys" / "root.pem")
        shown = subprocess.run(
            [openssl, "x509", "-in", root, "-noout", "-fingerprint", "-sha256"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        pin = shown.rpartition("=")[2].strip().replace(":", "").lower()
        for role in (*NODES, PERSON):
            self.assert_ok(role, "cluster.root", pin)

    @proves("U-NOTE-24")
    def test_rotation(self) -> None:
        """A key that is prepared and not in use yet."""
        self.assert_ok("authority", "cluster.rotation", "transport 1")
        self.copy.sql(
            "INSERT INTO key_revisions SELECT kind, 2, certificate, 'prepared', 0 FROM "
            "key_revisions WHERE kind = 'transport'"
        )
        self.assert_found("authority", "cluster.rotation", "info", "transport", "revision 2")

    @proves("G-HA-07", "U-NOTE-18")
    def test_members(self) -> None:
        """A member without a private address is named by its key; one that was revoked is not."""
        self.assert_ok("authority", "cluster.members")
        member = "INSERT INTO authority_members SELECT ?, id, 1, 'i' FROM nodes WHERE role = ?"
        self.copy.sql(member, "before", "authority")
        self.assert_ok("authority", "cluster.members", "the only Authority")
        self.copy.sql(member, "two", "proxy")
        self.assert_found(
            "authority", "cluster.members", "fail", "authority.peers.two", "private_listen"
        )
        one = {"authority__name": "one", "endpoints__private_listen": Address("10.0.0.1", 1)}
        peers = {name: Address("10.0.0.1", 1) for name in ("one", "two")}
        self.assert_found(
            "authority",
            "cluster.members",
            "fail",
            "authority.peers.one",
            authority__peers={"two": peers["two"]},
            **one,
        )
        self.assert_ok("authority", "cluster.members", "one, two", authority__peers=peers, **one)
        self.copy.sql("UPDATE authority_members SET node_id = 'gone' WHERE owner = 'two'")
        self.assert_ok("authority", "cluster.members")
        self.copy.sql("DELETE FROM authority_members")
        shutil.rmtree(self.copy.state("authority") / "identity")
        self.assert_ok("authority", "cluster.members", "no name before its first start")

    @proves("U-NOTE-22", "U-OPEN-20", "G-DOC-13")
    def test_version_skew(self) -> None:
        """Another version in the pool is warned of; of a Connector it is told."""
        self.assert_ok("authority", "cluster.version_skew", __version__)
        self.copy.sql("UPDATE nodes SET version = '0.9.0' WHERE role = 'connector'")
        self.assert_found("authority", "cluster.version_skew", "info", "0.9.0")
        self.copy.sql("UPDATE nodes SET version = '0.9.0' WHERE role = 'proxy'")
        self.assert_found("authority", "cluster.version_skew", "warn", "0.9.0")

    def test_epochs(self) -> None:
        """Connectors that are older than the epoch; one that is newer than this build."""
        self.assert_ok("authority", "cluster.epochs", "epoch 0", "serve SSH: 0")
        self.copy.sql("UPDATE resources SET kind = 'ssh', onward_auth = 'stored_key'")
        self.assert_ok("authority", "cluster.epochs", "epoch 0", "serve SSH: 1")
        self.copy.sql("DELETE FROM node_capabilities")
        self.assert_found("authority", "cluster.epochs", "warn", "older than the gate", "echo")
        self.copy.sql("UPDATE resources SET onward_auth = 'passthrough'")
        self.assert_ok("authority", "cluster.epochs", "epoch 0")
        self.copy.sql("INSERT INTO epochs VALUES ('ssh_gate', 1, 0, 'x')")
        self.assert_found(
            "authority", "cluster.epochs", "warn", "epoch 1", "gate_not_offered", "connector "
        )
        self.copy.sql("UPDATE nodes SET version = ''")  # as of one that has never registered
        self.assert_ok("authority", "cluster.epochs", "epoch 1")
        self.copy.sql("UPDATE epochs SET epoch = 9")
        self.assert_found("authority", "cluster.epochs", "fail", "epoch 9", "upgrade this")

    def test_leaves(self) -> None:
        """A node whose certificate has ended."""
        self.assert_ok("authority", "cluster.leaves", "proxy")
        self.copy.at += 2 * DAY
        self.assert_found("authority", "cluster.leaves", "warn", "expired: 3")

    @proves("G-DOC-13")
    def test_authority_addresses(self) -> None:
        """One name that stands for several addresses is warned of."""
        self.assert_ok("proxy", "cluster.authority_addresses")
        chosen = [check for check in CHECKS if check.id == "cluster.authority_addresses"]
        balanced = Address("authority.example", 7401)
        context = self.copy.context("proxy", endpoints__authority=(balanced,))
        context = evolve(context, resolve=lambda host: ("10.0.0.1", "10.0.0.2"))
        (found,) = examine(chosen, [context]).checks
        self.assertEqual(found.severity, CheckSeverity.WARN)
        self.assertIn("endpoints.authority", found.message)


class PolicyTests(CopyCase):
    """``policy.*``."""

    def test_active(self) -> None:
        """None; one that was not signed; one that this build cannot read."""
        self.assert_ok("authority", "policy.active", "is signed")
        self.copy.sql("UPDATE policy_versions SET text = text || '// more' WHERE version = 2")
        self.assert_found("authority", "policy.active", "fail", "version 2", "signed")

    def test_texts(self) -> None:
        """A text that this build refuses says why; one without a permit is told from one with."""
        context = self.copy.context("authority")
        words = context.vocabulary(context.settings)
        self.assertIn("policy", why_refused("permit (principal, action", words))
        self.assertEqual(why_refused('@id("a") permit (principal, action, resource);', words), "")
        self.assertTrue(permits('@id("a") permit (principal, action, resource);'))
        for nothing in ("", "// permit", '@id("permit") forbid (principal, action, resource);'):
            self.assertFalse(permits(nothing), nothing)

    def test_bundle(self) -> None:
        """How much Proxies are sent, of what they take: most of it, and more."""
        self.assert_ok("authority", "policy.bundle", "bytes of the 32.0 MiB")
        for most, severity in ((1_100, "warn"), (100, "fail")):
            self.patch(policy, "MAX_BUNDLE_BYTES", most)
            self.assert_found("authority", "policy.bundle", severity, "resources list")

    def test_catalog(self) -> None:
        """A kind that is not enabled; a resource that is offered and may not be served."""
        self.assert_ok("authority", "policy.catalog", "catalog: 1")
        self.assert_found("authority", "policy.catalog", "warn", "echo", plugins__kinds=("ssh",))
        offer = "INSERT OR REPLACE INTO undeclared_resources SELECT id, ?, 'tcp', 0 FROM nodes"
        self.copy.sql(f"{offer} WHERE role = 'connector'", "echo")
        self.assert_ok("authority", "policy.catalog")
        self.copy.sql(f"{offer} WHERE role = 'connector'", "more")
        self.assert_found("authority", "policy.catalog", "info", "more", "not_in_catalog")

    def test_targets(self) -> None:
        """A target whose kind refuses it, and one whose password others can read."""
        self.assert_found("connector", "policy.targets", "info", "no check connects")
        self.assert_found("connector", "policy.targets", "info", connector__resources=())
        password = self.copy.base / "password"
        password.write_text("hush")
        password.chmod(0o644)
        served = self.postgres({"app": str(password)})
        found = self.assert_found("connector", "policy.targets", "fail", "chmod", **served)
        self.assertNotIn("hush", repr(found))
        password.chmod(0o600)
        self.assert_found("connector", "policy.targets", "info", "can be read", **served)
        self.assert_found(
            "connector",
            "policy.targets",
            "fail",
            "connector.resources[0]",
            **self.postgres({}, tls="so"),
        )

    def test_privileges(self) -> None:
        """The password of a superuser by name; of another role nothing can be known."""
        self.assert_ok("connector", "policy.privileges")
        for role, severity in (("postgres", "warn"), ("app", "info")):
            served = self.postgres({role: "/nowhere/password"})
            self.assert_found("connector", "policy.privileges", severity, "db", **served)

    def postgres(self, passwords: dict[str, str], **more: object) -> dict[str, object]:
        """The settings of a Connector that serves one database."""
        table = {"address": "127.0.0.1:9", "password_files": passwords, **more}
        one = ResourceTable(
            id="db",
            kind="postgres",
            address="127.0.0.1:9",
            table=table,
            key_path="connector.resources[0]",
        )
        return {"connector__resources": (one,), "plugins__kinds": ("postgres",)}
