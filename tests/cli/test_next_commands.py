"""What a text tells to type, completed with the options of the command that ran."""

from __future__ import annotations

from pathlib import Path

import click
from twisted.trial.unittest import SynchronousTestCase

from svc.cli import Globals, svc
from svc.cli.groups import MissingCommand
from svc.cli.lane import OPTIONS, LaneOptions
from svc.cli.next_commands import DIRECTORY, completed, completed_refusal, completed_usage
from svc.errors import SvcError, Unavailable
from tests.config.malformed import GOOD
from tests.system.admin_commands import ON_THE_HOST, REMOTE

LIST = "there is no such node; see `svc authority nodes list`"
SIGN_IN = "the sign-in has ended; run `svc login`"


def context(
    command: str,
    config: str | None = None,
    *,
    lane: LaneOptions | None = None,
    directory: str = "",
    home: str = "/nowhere",
) -> click.Context:
    """Of a command that runs, as the command line has made it."""
    made = click.Context(svc, obj=Globals(config, {"HOME": home}))
    made.invoked_subcommand = command
    if command == "authority":
        made.meta[OPTIONS] = lane or LaneOptions()
    if directory:
        made.meta[DIRECTORY] = Path(directory)
    return made


def refused(text: str, within: click.Context) -> str:
    """What a refusal of that command says."""
    return completed_refusal(Unavailable(text), within).text


def hinted(text: str, within: click.Context) -> str:
    """What a hint of that command says."""
    with within:
        return completed(text)


class AuthorityTests(SynchronousTestCase):
    """``svc authority``, on its host and elsewhere."""

    def test_on_its_host(self) -> None:
        """Commands of this host read the same configuration; a person's are typed elsewhere."""
        here = context("authority", "my own/all.toml")
        told = "there is no such node; see `svc --config 'my own/all.toml' authority nodes list`"
        self.assertEqual((refused(LIST, here), hinted(LIST, here)), (told, told))
        self.assertEqual(
            refused("look at it with: svc doctor", here),
            "look at it with: svc --config 'my own/all.toml' doctor",
        )
        join = "have that person run:\nsvc join --proxy gate:443 --ca-pin PIN"
        for text in (SIGN_IN, join):
            self.assertEqual((refused(text, here), hinted(text, here)), (text, text))

    def test_left(self) -> None:
        """A command that names a configuration, and a word that is no command, stay."""
        here = context("authority", "all.toml")
        for text in (
            "on the host of each: svc --config FILE authority keys sync root ack",
            "start it with: svc --config other.toml authority",
            "svc authority, svc-authority and `svc authority`",
        ):
            self.assertEqual(refused(text, here), text)

    def test_wrong_usage(self) -> None:
        """What is wrong with the command line is told in the same way; help is left as it is."""
        here = context("authority", "all.toml")
        wrong = completed_usage(click.UsageError("see `svc authority policy review`"), here)
        self.assertEqual(wrong.message, "see `svc --config all.toml authority policy review`")
        helped = MissingCommand(here)
        before = helped.message
        self.assertEqual(completed_usage(helped, here).message, before)

    def test_without_options(self) -> None:
        """Where none were typed, the command that is printed needs none either."""
        for command in ("authority", "status", "doctor", ""):
            for text in (LIST, SIGN_IN):
                refusal = SvcError(text)
                self.assertIs(completed_refusal(refusal, context(command)), refusal)
        self.assertEqual(completed(LIST), LIST)

    def test_no_line_can_hold_it(self) -> None:
        """A path that would break the line is not printed."""
        self.assertEqual(refused(LIST, context("authority", "two\nlines.toml")), LIST)

    def test_through_a_proxy(self) -> None:
        """The same way is taken again; what needs the Authority's files is typed on its host."""
        way = LaneOptions(proxies=("gate:443",), directory=Path("my dir"))
        here = context("authority", lane=way)
        told = "svc authority --proxy gate:443 --dir 'my dir' nodes list"
        self.assertIn(told, refused(LIST, here))
        self.assertIn(told, hinted(LIST, here))
        self.assertEqual(
            refused(SIGN_IN, here), "the sign-in has ended; run `svc login --dir 'my dir'`"
        )
        self.assertEqual(hinted(SIGN_IN, here), SIGN_IN)
        for words in ON_THE_HOST:
            text = f"an operator runs: svc authority {words}"
            self.assertEqual(refused(text, here), text)
        for words in REMOTE:
            self.assertIn(f" --dir 'my dir' {words}", refused(f"svc authority {words}", here))

    def test_by_a_person_s_configuration(self) -> None:
        """``--config client.toml`` goes through a Proxy as well."""
        here = context("authority", "bob/client.toml")
        self.assertIn("svc --config bob/client.toml authority nodes list", refused(LIST, here))
        self.assertIn("svc login --dir bob", refused(SIGN_IN, here))


class OtherTests(SynchronousTestCase):
    """Roles, people, and commands for either."""

    def written(self, role: str) -> str:
        path = Path(self.mktemp())
        path.write_text(GOOD[role])
        return str(path)

    def test_roles(self) -> None:
        """Only where the Authority is on this host are its commands typed here."""
        for role, is_here in (("authority", True), ("all", True), ("proxy", False)):
            path = self.written(role)
            told = f"see `svc --config {path} authority nodes list`" if is_here else LIST
            for command in (role, "doctor", "reload"):
                if command != "authority":
                    with self.subTest(role=role, command=command):
                        self.assertIn(told, refused(LIST, context(command, path)))
            self.assertEqual(refused(SIGN_IN, context("doctor", path)), SIGN_IN)

    def test_person(self) -> None:
        """A person's commands use the same identity; an operator's are typed by an operator."""
        for here in (
            context("status", "bob/client.toml"),
            context("status", directory="bob"),
            context("doctor", directory="bob"),
            context("login", directory="bob"),
        ):
            self.assertEqual(
                refused(SIGN_IN, here), "the sign-in has ended; run `svc login --dir bob`"
            )
            self.assertEqual(
                refused("start it with: svc up", here), "start it with: svc up --dir bob"
            )
            self.assertEqual(refused(LIST, here), LIST)
