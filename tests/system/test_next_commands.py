"""Each command that a refusal prints works when it is typed, wherever the configuration is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import Ran, run, svc_command
from svc.testing.gateway.settings import AUTHORITY
from tests.system.common import ada, shared

_NEXT = re.compile(r"`(svc [^`]+)`|(?:: |see )(svc [^;\n(]+?)(?=;|\n| \()")

REFUSED = (
    "resources set nothing --onward-auth certificate",
    "resources remove nothing",
    "resources assign echo --node nobody",
    "persons show nobody",
    "persons add eva --group absent",
    "sessions end 00000000",
    "sessions list --person nobody",
    "recordings show 00000000",
    "recordings list --person nobody",
    "scopes remove nothing",
    "identities remove nothing",
    "tokens revoke nothing",
    "agents revoke nothing",
    "nodes unexpect 00000000",
    "policy check --as nobody --action view --resource echo",
    "policy check --as ada --action view --resource nothing",
    "policy review 00000000",
    "policy rollback 99",
    "nodes revoke nobody",
    "groups remove absent-2",
    "groups members absent-3",
    "audit outbox release 99 --reason tidy",
    "keys sync root activate",
)
"""What is refused with a command that shows what there is, or makes what is missing."""

PERSONS = (
    "requests show 00000000",
    "requests withdraw 00000000",
    "proxy-ssh nothing",
    "open",
    "open nothing",
    "kubeconfig",
    "up",
)
"""The same of a person, whose `svc up` runs."""


def told(ran: Ran) -> list[str]:
    """The commands that a refusal tells to type, but for those of another host."""
    found = _NEXT.findall(ran.stderr.removeprefix("svc: "))
    commands = [first or second for first, second in found]
    return [one for one in commands if "--config FILE" not in one]


class NextCommandTests(SynchronousTestCase):
    """No configuration is at its default place, and no variable names one."""

    def type(self, command: str, home: Path) -> Ran:
        """*command* as a shell takes it, on its first word."""
        program, *words = shlex.split(command)
        self.assertEqual(program, "svc")
        return run(svc_command(*words), home)

    def each_works(self, option: str, lines: Sequence[str]) -> None:
        """Each command in the refusals of these has the option, and works as it stands."""
        elsewhere = Path(self.mktemp()).absolute()
        elsewhere.mkdir()
        for line in lines:
            with self.subTest(line=line):
                refused = self.type(line, elsewhere)
                self.assertNotEqual(refused.status, 0)
                commands = told(refused)
                self.assertNotEqual(commands, [], refused.stderr)
                for command in commands:
                    self.assertIn(f" {option} ", f"{command} ")
                    typed = self.type(command, elsewhere)
                    self.assertEqual(typed.status, 0, f"{command}: {typed.stderr}")

    def test_operator(self) -> None:
        """Those of ``svc --config FILE authority …``."""
        option = f"--config {shared().files.config(AUTHORITY)}"
        self.each_works(option, [f"svc {option} authority {words}" for words in REFUSED])

    def test_person(self) -> None:
        """Those of a person's commands, whose identity is in a directory of its own."""
        self.addCleanup(ada().up("echo").stop)
        option = f"--dir {ada().directory}"
        self.each_works(option, [f"svc {words} {option}" for words in PERSONS])
