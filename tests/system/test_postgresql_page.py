"""The page on PostgreSQL, followed literally with a server of the test's own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.files import free_ports
from svc.testing.gateway.postgres import LOCKED
from svc.testing.gateway.processes import Child, Ran, run, svc_command, until
from tests.support.postgres import own_server
from tests.support.tools import stock_tool
from tests.support.wheels import ROOT

RUN_BY = "make fault"

PAGE = ROOT / "docs" / "how-to" / "postgresql.md"
_BLOCK = re.compile(r"^```(sql|sh|toml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PASSWORD = "p-w"
PASSFILE = "/etc/svc/pgpass"


class PageTests(SynchronousTestCase):
    """As an administrator reads it, from the first block to the last."""

    def setUp(self) -> None:
        self.place = Path(self.mktemp()).absolute()
        self.place.mkdir(mode=0o700)
        program = self.place / "bin" / "svc"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m svc "$@"\n')
        program.chmod(0o755)

    def type_in(self, text: str) -> Ran:
        """What a shell makes of these lines; each must end well."""
        before = f'PATH="{self.place / "bin"}:$PATH"\n'
        return run(["sh", "-ec", before + text], self.place, seconds=120).checked()

    def test_carried_over(self) -> None:
        """A gateway of ``svc init --all`` serves from PostgreSQL, its whole log with it."""
        psql, server = stock_tool("psql"), own_server(self)
        stock_tool("ssh-keygen")
        blocks = _BLOCK.findall(PAGE.read_text("utf-8"))
        self.assertEqual([kind for kind, _ in blocks], ["sql", "sh", "sh", "toml", "sh"])
        (made, taken, secret, settings, back) = (text for _, text in blocks)
        public, first, *_ = free_ports()
        self.type_in(f"svc init --all gw --public-port {public} --authority-port {first}")

        made = made.replace("ROLE svc ", f"ROLE {LOCKED} ").replace("OWNER svc", f"OWNER {LOCKED}")
        made = made.replace("'...'", f"'{PASSWORD}'")
        run([psql, "-v", "ON_ERROR_STOP=1", "-c", "SELECT 1", server.url()], self.place).checked()
        run(
            [psql, "-v", "ON_ERROR_STOP=1", server.url()], self.place, stdin=made.encode()
        ).checked()
        self.type_in(taken)
        row = f"*:*:svc:{LOCKED}:{PASSWORD}"
        secret = secret.replace("db.example:5432:svc:svc:...", row)
        self.type_in(secret.replace(PASSFILE, str(self.place / "pgpass")))
        self.assertEqual((self.place / "pgpass").read_text(), f"{row}\n")
        self.configure(settings, server.url("svc", LOCKED))
        *lines, last = back.splitlines()
        self.type_in("\n".join(lines))
        self.assertEqual(last, "svc --config gw/all.toml all")

        child = Child(
            name="all",
            words=svc_command(*last.split()[1:]),
            home=self.place,
            log=self.place / "log",
        )
        child.start()
        self.addCleanup(child.end)
        until("tunnel", lambda: "tunnel registered" in child.text(), 60, [child])
        verify = svc_command("--config", "gw/all.toml", "authority", "audit", "verify", "--json")
        verified = run(verify, self.place).checked().json
        self.assertGreater(verified["records"], 14)
        self.assertEqual(child.stop(), 0)
        self.assertFalse(list((self.place / "gw" / "state").rglob("store.db")))

    def configure(self, settings: str, url: str) -> None:
        """Edit the configuration as the page says, but for TLS: this server is on a socket."""
        line, _, table = settings.partition("\n\n")
        self.assertTrue(line.startswith('store_url = "postgresql://svc@db.example/svc?sslmode='))
        self.assertTrue(line.endswith(f'&passfile={PASSFILE}"'))
        url += f"?passfile={self.place / 'pgpass'}"
        path = self.place / "gw" / "all.toml"
        text, count = re.subn(
            "^store_url = .*$", f'store_url = "{url}"', path.read_text("utf-8"), flags=re.MULTILINE
        )
        self.assertEqual(count, 1)
        path.write_text(f"{text}\n{table}", "utf-8")
