"""``svc demo`` as a stranger runs it: real processes, and what they leave behind."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree

from twisted.trial.unittest import SynchronousTestCase

from svc.demo.postgres_programs import find_programs
from svc.testing.gateway.processes import Child, Ran, run, svc_command, until
from tests.fault.tally import in_long_form
from tests.support.proof import proves

RUN_BY = "make fault"

_DECISION = r"decision ([0-9a-f]{32})"
RUNS = 100
"""Of the same demo, three at a time; in the short form only other tests make some."""


def read(page: str) -> str:
    """One of the documents."""
    return (Path(__file__).resolve().parents[2] / page).read_text("utf-8")


class DemoCase(SynchronousTestCase):
    """A home and a directory for temporary files, both empty."""

    def setUp(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="svc-test-demo-"))
        self.addCleanup(rmtree, self.base, True)
        self.home, self.temporary = self.base / "home", self.base / "tmp"
        self.home.mkdir()
        self.temporary.mkdir()
        for each in (self.base, self.temporary):
            each.chmod(0o711)  # as root, PostgreSQL runs as another user, who has to get there
        self.kept = self.base / "kept"
        self.more = {"TMPDIR": str(self.temporary)}

    def once(self, *words: str) -> Ran:
        """``svc demo --once`` to its end; one that ends well has no error to report."""
        ran = run(svc_command("demo", "--once", *words), self.home, self.more, seconds=60)
        if ran.status == 0:
            self.assertNotRegex(ran.stderr + ran.stdout, r"\bERROR\b|Traceback")
        return ran

    def svc(self, *words: str) -> Ran:
        """Another process that looks at what was kept."""
        return run(svc_command("--config", str(self.kept / "all.toml"), *words), self.home)

    def demo(self) -> Child:
        """One that stays up."""
        child = Child(
            name="demo",
            words=svc_command("demo"),
            home=self.home,
            log=self.base / "demo.log",
            environ=self.more,
        )
        self.addCleanup(child.end)
        child.start()
        return child

    def told(self, child: Child) -> str:
        """What it printed once it stays up."""
        last = "stays up until you interrupt it"
        until("the demo's last line", lambda: last in child.text(), 60, [child])
        return child.text()

    def await_directory(self, child: Child) -> None:
        """Wait until it has made the first of its directories."""

        def has_one() -> bool:
            return any(one.is_dir() for one in self.temporary.iterdir())

        until("the first directory", has_one, 60, [child])

    def left(self) -> list[str]:
        """What it left behind."""
        return sorted(
            str(each) for place in (self.home, self.temporary) for each in place.iterdir()
        )


class OnceTests(DemoCase):
    """``--once``: shown, and over."""

    def test_allows_denies_explains_verifies_and_leaves_nothing(self) -> None:
        """One command shows sessions, a refusal with reason and id, a whole log; and no file."""
        done = self.once().checked()
        self.assertNotRegex(done.stderr, r"\bERROR\b|Traceback")
        allowed = re.findall(rf"^ALLOW  ada → (\S+) .*{_DECISION}$", done.stdout, re.M)
        shown = ["echo", "web", "ssh-demo", "k8s", *(["orders"] if find_programs() else [])]
        self.assertEqual([name for name, _ in allowed], shown)
        denied = re.search(
            rf"^DENY   ada → vault .*policies \[vault-is-closed\].*{_DECISION}$", done.stdout, re.M
        )
        assert denied is not None, done.stdout
        self.assertRegex(done.stdout, rf"(?m)^why +{denied[1]}: deny tcpConnect on vault")
        self.assertRegex(
            done.stdout, r"(?m)^audit verify: verified \d+ records, head seq \d+ hash "
        )
        page = r"^DENY   ada → web  .*GET /admin: 403, .*policies \[no-admin\]"
        self.assertRegex(done.stdout, rf"(?m){page}.*{_DECISION}$")
        call = r"^DENY   ada → k8s  .*/secrets: Forbidden  policies \[no-secrets\]"
        self.assertRegex(done.stdout, rf"(?m){call}.*{_DECISION}$")
        statement = (
            r"^DENY   ada → orders .*DROP TABLE items: SQLSTATE 42501, .*policies \[no-ddl\]"
        )
        if find_programs():
            self.assertRegex(done.stdout, rf"(?m){statement}.*{_DECISION}$")
        else:
            self.assertIn("without a database: this machine has no PostgreSQL", done.stdout)
        self.assertNotIn("cut_short", done.stderr)
        self.assertIn("init my-gateway", done.stdout)
        if find_programs():
            self.is_documented(done.stdout)
        self.assertEqual(self.left(), [])

    def is_documented(self, shown: str) -> None:
        """README and quickstart show these lines; ids and the number of records may differ."""
        for page in ("README.md", "docs/quickstart.md"):
            lines = re.findall(r"(?m)^    ((?:ALLOW|DENY|why|audit verify)\b.*)$", read(page))
            self.assertGreater(len(lines), 6)
            for line in lines:
                fixed = re.sub(r"\b[0-9a-f]+…", "IDENTIFIER", line)
                fixed = re.escape(re.sub(r"(verified|seq) \d+", r"\1 NUMBER", fixed))
                form = fixed.replace("NUMBER", r"\d+").replace("IDENTIFIER", "[0-9a-f]{32,64}")
                self.assertRegex(shown, f"(?m)^{form}$", page)

    @in_long_form
    def test_again_and_again(self) -> None:
        """However often it is run, it ends well and has no error to report."""
        with ThreadPoolExecutor(3) as several:
            runs = list(several.map(lambda _: self.once(), range(RUNS)))
        bad = [
            one
            for one in runs
            if one.status != 0 or re.search(r"\bERROR\b|Traceback", one.stderr + one.stdout)
        ]
        self.assertEqual(bad, [], f"{len(bad)} of {RUNS}")

    @proves("G-AUD-12")
    def test_kept_log_is_found_whole_and_a_flipped_byte_is_found_too(self) -> None:
        """Other processes verify the kept log, find both decisions, and see one changed byte."""
        done = self.once("--keep", str(self.kept)).checked()
        self.assertEqual(self.left(), [])
        verified = self.svc("authority", "audit", "verify").checked()
        self.assertRegex(verified.stdout, r"^verified \d+ records, head seq \d+ hash [0-9a-f]{64}")
        for line in ("ALLOW", "DENY"):
            found = re.search(rf"^{line} .*{_DECISION}$", done.stdout, re.M)
            assert found is not None, done.stdout
            shown = self.svc("authority", "audit", "show", found[1], "--long").checked()
            self.assertIn(found[1], shown.stdout)
        store = self.kept / "state" / "authority" / "store.db"
        data = bytearray(store.read_bytes())
        data[data.index(b'"cedar_action":"tcpConnect"') + 16] ^= 1
        store.write_bytes(data)
        refused = self.svc("authority", "audit", "verify")
        self.assertEqual(refused.status, 6, refused)
        self.assertRegex(refused.stderr, r"record \d+")

    def test_directory_that_holds_something_is_not_used(self) -> None:
        """--keep never writes over what is there."""
        self.kept.mkdir()
        (self.kept / "mine").write_text("precious")
        refused = self.once("--keep", str(self.kept))
        self.assertEqual(refused.status, 1, refused)
        self.assertIn("not empty", refused.stderr)
        self.assertEqual([each.name for each in self.kept.iterdir()], ["mine"])

    def test_malformed_filter_is_refused(self) -> None:
        """A RUST_LOG that is no filter ends the demo before anything is made."""
        self.more["RUST_LOG"] = "svc=loud"
        refused = self.once()
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        self.assertIn("RUST_LOG", refused.stderr)
        self.assertEqual(self.left(), [])


class StayingTests(DemoCase):
    """Without ``--once`` it stays up until it is interrupted."""

    def test_serves_a_client_until_it_is_interrupted(self) -> None:
        """The printed page answers, a second demo beside it works, and Ctrl-C ends it well."""
        child = self.demo()
        found = re.search(r"curl http://([0-9.]+):(\d+)/$", self.told(child), re.M)
        assert found is not None, child.tail()
        _hears((found[1], int(found[2])), b"You came through the gateway.")
        if shutil.which("kubectl"):
            self.asks_what_it_may(child.text())
        self.once().checked()
        self.assertTrue(child.is_alive)
        for number in (signal.SIGINT, signal.SIGTERM):
            child.signal(number)
        self.assertEqual(child.wait(), 0, child.tail())
        self.assertNotIn("ERROR", child.tail())
        self.assertEqual(self.left(), [])

    def asks_what_it_may(self, told: str) -> None:
        """The printed ``kubectl auth can-i`` is answered, and says no for what is denied."""
        found = re.search(r"^ *(kubectl .* auth can-i) get secrets   #", told, re.M)
        assert found is not None, told
        visitor = self.base / "visitor"  # kubectl keeps a cache at home
        visitor.mkdir()
        for resource, status, why in (("pods", 0, "yes"), ("secrets", 1, "the access policy")):
            ran = run([*shlex.split(found[1]), "get", resource], visitor)
            self.assertEqual((ran.status, why in ran.stdout), (status, True), ran)

    def test_a_killed_one_is_removed_by_the_next(self) -> None:
        """What a killed demo leaves behind, the next one removes, and says so."""
        child = self.demo()
        self.await_directory(child)
        child.signal(signal.SIGKILL)
        child.wait()
        self.assertNotEqual(self.left(), [])
        self.assertIn("removed what killed demos had left: ", self.once().checked().stdout)
        self.assertEqual(self.left(), [])

    def test_interrupted_early_it_leaves_nothing(self) -> None:
        """A demo that is interrupted while it is being made puts all away."""
        child = self.demo()
        self.await_directory(child)
        child.signal(signal.SIGINT)
        self.assertEqual(child.wait(), 130, child.tail())
        self.assertEqual(self.left(), [])


def _hears(there: tuple[str, int], words: bytes) -> None:
    """Fail unless an HTTP request there is answered with these words."""
    heard = b""
    with socket.create_connection(there, 30) as asking:
        asking.sendall(b"GET / HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (there[0].encode(), there[1]))
        while words not in heard:
            piece = asking.recv(4096)
            assert piece, heard
            heard += piece
