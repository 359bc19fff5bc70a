"""What ``svc login`` asks and shows where people sign in without a provider."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import frozen

from svc.errors import UsageError

if TYPE_CHECKING:
    from svc.join.account import LocalLogin, SecurityKey, SignedInHere
    from svc.join.sign_in import MachineSignIn

_MAX_LINE = 2048
_FEW = 2


@frozen
class LocalWords:
    """How somebody signs in without a provider.

    Attributes:
        enrolls: With a one-time code, which *code_file* holds or the person types.
    """

    name: str | None
    enrolls: bool
    is_first: bool
    code_file: Path | None
    has_key: bool

    async def run(self, machine: MachineSignIn) -> SignedInHere:
        """Ask what is needed, and sign in.

        Raises:
            SvcError: refused or not reached.
        """
        from svc.join.account import LocalLogin

        login = LocalLogin(machine=machine, ask=ask, show_uri=show_uri, key=self._key(machine))
        name = self.name or ask("Name", False)
        if not self.enrolls:
            return await login.sign_in(name)
        return await self._enroll(login, name)

    async def _enroll(self, login: LocalLogin, name: str) -> SignedInHere:
        code = _code(self.code_file)
        password = ask("New password", True)
        if sys.stdin.isatty() and ask("The same again", True) != password:
            raise UsageError("the two passwords differ; run the command again")
        return await login.enroll(name, code, password, first_administrator=self.is_first)

    def _key(self, machine: MachineSignIn) -> SecurityKey | None:
        if not self.has_key:
            return None
        from svc.join.security_key import usb_security_key

        return usb_security_key(machine.show, ask)


def ask(what: str, is_hidden: bool) -> str:
    """A line from the terminal, else from stdin; never from the command line (rule R5)."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline(_MAX_LINE)
        if not line:
            raise UsageError(f"stdin ended where this was expected: {what}")
        return line.rstrip("\n")
    # The reactor's handler of this signal would wait for the line.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        answer: str = click.prompt(what, hide_input=is_hidden, err=True)
    finally:
        signal.signal(signal.SIGINT, before)
    return answer


def show_uri(uri: str) -> None:
    """What an authenticator app reads: a QR code where the terminal can show one, and the text."""
    import segno

    click.echo("Scan this with your authenticator app, or type the secret into it:", err=True)
    if sys.stderr.isatty():
        segno.make(uri).terminal(out=sys.stderr, compact=True)
    click.echo(uri, err=True)


def recovery_lines(codes: list[str]) -> list[str]:
    """What is printed of new recovery codes."""
    if not codes:
        return []
    return [
        "recovery codes: each signs you in once in place of the second factor; write them down:",
        *(f"  {code}" for code in codes),
    ]


def few_left_lines(left: int) -> list[str]:
    """What is told of recovery codes that run out."""
    if left > _FEW:
        return []
    return [f"{left} recovery code(s) left: have your operator reset the account to get new ones"]


def _code(path: Path | None) -> str:
    import os

    from svc.pki.files import read_private

    if path is None:
        return ask("One-time code", True)
    words = read_private(path, os.geteuid()).decode("ascii", "replace").split()
    if not words:
        raise UsageError(f"{path}: holds no code")
    return words[0]
