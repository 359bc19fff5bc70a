"""The tables of a real Authority changed by SQL, while it runs and while it is stopped."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.json_names import unknown
from svc.testing.gateway.gateway import Gateway, init_gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY

RUN_BY = "make fault"

OPEN = '@id("all") permit (principal, action, resource);'


class UnsignedRowTests(SynchronousTestCase):
    """One Authority alone."""

    def setUp(self) -> None:
        self.gateway = gateway = init_gateway()
        self.addCleanup(gateway.end)
        gateway.make_authority()

    def sql(self, *statements: str) -> None:
        """Change the tables behind everybody's back."""
        with closing(sqlite3.connect(self.gateway.files.store, timeout=10)) as store, store:
            for one in statements:
                store.execute(one)

    def unsigned(self) -> list[str]:
        found: list[str] = self.gateway.status()["unsigned"]
        return found

    def named(self, gateway: Gateway, *wanted: str) -> None:
        """Wait until exactly these rows are named."""
        child = gateway.child(AUTHORITY)
        until(f"{wanted} named", lambda: self.unsigned() == list(wanted), alive=[child])
        gateway.await_metric(AUTHORITY, "svc_state_unsigned", len(wanted))

    def test_life(self) -> None:
        """Rows changed under it, while it is stopped, and before it knew of records."""
        gateway = self.gateway
        gateway.operator("persons", "add", "ada", "--group", "dev", "--create-groups")
        ada = gateway.operator("persons", "list", "--json").json[0]["id"]
        version = gateway.status()["policy_version"]
        self.assertEqual(self.unsigned(), [])

        insert = "INSERT INTO policy_versions SELECT version + 1, '{}', sha256, author, 1.0, 1.0"
        self.sql(insert.format(OPEN) + " FROM policy_versions ORDER BY version DESC LIMIT 1")
        self.named(gateway, f"policy:{version + 1}")
        self.assertEqual(gateway.status()["policy_version"], version)
        setting = gateway.operator("policy", "set", "-", stdin=OPEN.encode(), check=False)
        self.assertNotEqual(setting.status, 0)

        gateway.child(AUTHORITY).kill()
        self.sql(
            f"DELETE FROM policy_versions WHERE version > {version}",
            "INSERT INTO person_groups VALUES ('root', 1.0)",
            f"INSERT INTO memberships VALUES ('{ada}', 'root')",
        )
        gateway.start(AUTHORITY)
        self.named(gateway, f"person:{ada}", "group:root")
        self.sql(
            "DELETE FROM memberships WHERE group_name = 'root'",
            "DELETE FROM person_groups WHERE name = 'root'",
        )
        self.named(gateway)
        self.assertEqual(gateway.operator("audit", "verify").status, 0)

        self.refused_start("DELETE FROM state_changes", "state_rolled_back")
        anchor = gateway.files.state(AUTHORITY) / "anchor"
        for name in ("state.json", "state-rows.json"):
            anchor.joinpath(name).unlink(missing_ok=True)
        self.sql("DELETE FROM state_signers")
        for end in ("pem", "key"):
            gateway.files.state(AUTHORITY).joinpath("keys", f"audit-origin.{end}").unlink()
        self.refused_start("", "audit-origin.pem: is missing")
        shown = gateway.operator("state", "adopt")
        self.assertIn("nothing was changed", shown.stderr)
        told = gateway.operator("state", "adopt", "--json").json
        self.assertEqual((list(unknown(told)), told["adopt"]), ([], False))
        self.assertIn("made the key", gateway.operator("state", "adopt", "--yes").stderr)
        anchor.joinpath("adopt-state.json").rename(anchor / "kept")
        self.refused_start("", "state_unadopted")
        shutil.move(anchor / "kept", anchor / "adopt-state.json")
        gateway.start(AUTHORITY)
        self.named(gateway)
        self.assertEqual(gateway.status()["policy_version"], version)
        again = gateway.operator("state", "adopt", check=False)
        self.assertIn("already has signed records", again.stderr)

    def refused_start(self, statement: str, word: str) -> None:
        """The Authority does not start over this."""
        child = self.gateway.child(AUTHORITY)
        child.kill()
        if statement:
            self.sql(statement)
        child.start()
        until("it ended", lambda: not child.is_alive)
        self.assertIn(word, child.text())
