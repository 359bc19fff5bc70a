"""A machine whose clock is wrong, and a certificate that has ended: what a person is told."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from svc.client.resident.control import ask_resident
from svc.errors import SvcError
from svc.testing.gateway.fork_server import CLOCK_OFFSET
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, Ran, run, svc_command, until
from tests.system.common import ada, shared

HOUR = 3600


def off(offset: float) -> dict[str, str]:
    """The environment of a machine whose clock is off by so many seconds."""
    return {CLOCK_OFFSET: str(offset)}


def with_clock(person: GatewayPerson, offset: float, *words: str, stdin: str = "") -> Ran:
    """Run a person's command on such a machine."""
    return run(svc_command(*words), person.home, off(offset), stdin=stdin.encode())


class WrongClockTests(SynchronousTestCase):
    def join(self, person: GatewayPerson, token: str, offset: float) -> Ran:
        proxy = shared().listening("proxy")["public"]
        words = ("join", "--proxy", proxy, "--ca-pin", shared().pin)
        return with_clock(person, offset, *words, stdin=token)

    def test_join(self) -> None:
        """Join says by how much the clock is off, and the token is good when it has been set."""
        token = shared().operator("persons", "add", "cleo").stdout.strip()
        person = GatewayPerson("cleo", shared().directory / "home-cleo", ada().cluster)
        person.home.mkdir(mode=0o700)
        for offset, said in (
            (-45, "this machine's clock is (4[5-9]|5[0-9]) s behind"),
            (45, "this machine's clock is (3[1-9]|4[0-5]) s ahead"),
            (
                -30 * 24 * HOUR,
                "Authority's certificate is not valid yet: this machine's clock says",
            ),
            (30 * 24 * HOUR, "Authority's certificate has expired"),
        ):
            refused = self.join(person, token, offset)
            self.assertEqual((refused.status, refused.stdout), (1, ""), refused.stderr)
            # The seconds that the words are on their way are counted as well.
            self.assertRegex(refused.stderr, said)
            self.assertIn("clock", refused.stderr)
            self.assertNotIn("ca_pin", refused.stderr)
            self.assertFalse((person.directory / "identity" / "current").exists())
        self.join(person, token, 0).checked()

    def test_good_identity(self) -> None:
        """With a slow clock a person is told of the clock, and not to join again."""
        for words in (
            ["resources", "list"],
            ["status"],
            ["status", "--refresh"],
            ["proxy-ssh", "x"],
        ):
            refused = with_clock(ada(), -HOUR, *words)
            self.assertEqual(refused.status, 1, refused.stdout)
            self.assertRegex(refused.stderr, r"is at least (5\d min|1 h \d+ min) behind")
            self.assertNotIn("svc join", refused.stderr)
        a_little = with_clock(ada(), -45, "why", "0" * 32)
        self.assertEqual(a_little.status, 1)
        self.assertRegex(a_little.stderr, "this machine's clock is (4[5-9]|5[0-9]) s behind")


class EndedTests(SynchronousTestCase):
    def test_ended(self) -> None:
        """After the certificate's end each command says when that was, and how to go on."""
        for words in (
            ["resources", "list"],
            ["status"],
            ["status", "--refresh"],
            ["why", "0" * 32],
        ):
            refused = with_clock(ada(), 13 * HOUR, *words)
            self.assertEqual(refused.status, 1, refused.stdout)
            self.assertIn("your certificate expired at 2", refused.stderr)
            self.assertIn("run `svc join` with a new token", refused.stderr)
        told = json.loads(with_clock(ada(), 13 * HOUR, "status", "--json").stdout)
        self.assertEqual(told["certificate"]["reason"], "certificate_expired")

    def test_ends_soon(self) -> None:
        """In the last hour ``svc status`` says how long is left, and what to do."""
        shown = with_clock(ada(), 12 * HOUR - 1800, "status").checked()
        self.assertRegex(shown.stdout, r"certificate +until .*, in (2\d|30) min: run `svc join`")

    def resident(self, person: GatewayPerson, offset: float, says: str) -> Child:
        """``svc up`` on such a machine, once it has said this and answers."""
        words, log = svc_command("up"), person.home / "up.log"
        child = Child(name="up-dora", words=words, home=person.home, log=log, environ=off(offset))
        child.start()
        self.addCleanup(child.end)
        socket = person.directory / "run" / "control.sock"
        until("the warning", lambda: says in child.text() and socket.exists(), alive=[child])
        return child

    def test_resident(self) -> None:
        """``svc up`` warns in its log, and after the end answers a refresh at once."""
        person = shared().add_person("dora")
        soon = self.resident(
            person,
            12 * HOUR - 1800,
            "your certificate expires soon; run `svc join` with a new token",
        )
        self.assertEqual(soon.stop(), 0)
        ended = self.resident(
            person, 13 * HOUR, "your certificate has expired; run `svc join` with a new token"
        )
        with self.assertRaises(SvcError) as refused:
            ask_resident(person.directory / "run", {"ask": "status", "refresh": True}, 10)
        self.assertEqual(refused.exception.reason, "certificate_expired")
        self.assertEqual(ended.stop(), 0)
