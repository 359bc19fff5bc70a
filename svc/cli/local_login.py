"""What ``svc login`` asks and shows where people sign in without a provider."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from svc.errors import UsageError
from svc.model.cluster.account import PASSWORD_DIFFERENT, PASSWORD_MIN

if TYPE_CHECKING:
    from svc.join.account import LocalLogin, SecurityKey, SignedInHere
    from svc.join.sign_in import MachineSignIn

_MAX_LINE = 2048
_FEW = 2


def password_rule(least: int) -> str:
    """What a new password has to be.

    Args:
        least: How many characters Authority asks for; 0: it has not said.
    """
    count = f"at least {least} characters"
    if not least:
        count = (
            f"at least as many characters as your Authority asks for ({PASSWORD_MIN} by default)"
        )
    return (
        f"A password has {count}, {PASSWORD_DIFFERENT} of them different, and does not contain "
        "your name."
    )


@frozen
class PasskeyWords:
    """What somebody asked of passkeys.

    Attributes:
        is_used: To sign in with one, or with *enrolls* to make the first.
        is_added: To add one to the account that is there.
    """

    is_used: bool
    is_added: bool


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
    passkey: PasskeyWords

    @property
    def is_asked(self) -> bool:
        """Whether somebody asked for what no provider has."""
        by_passkey = self.passkey.is_used or self.passkey.is_added
        return self.enrolls or self.has_key or by_passkey or self.name is not None

    def check(self) -> None:
        """Refuse options that ask for two things.

        Raises:
            UsageError: they do.
        """
        if self.passkey.is_used and (self.passkey.is_added or self.has_key):
            raise UsageError("--passkey excludes --add-passkey and --security-key")
        if self.passkey.is_added and self.enrolls:
            raise UsageError(
                "--add-passkey is for an account that is there; use --enroll --passkey"
            )

    async def run(
        self, machine: MachineSignIn, open_browser: Callable[[str], object] | None
    ) -> SignedInHere:
        """Ask what is needed, and sign in.

        Raises:
            SvcError: refused or not reached.
        """
        from svc.join.account import LocalLogin, PasskeyBrowser

        passkey = self.passkey
        login = LocalLogin(
            machine=machine,
            ask=ask,
            show_uri=show_uri,
            key=self._key(machine),
            browser=PasskeyBrowser(open_browser, passkey.is_used),
        )
        if passkey.is_used and not self.enrolls:
            return await login.by_passkey()
        name = self.name or ask("Name", False)
        if self.enrolls:
            return await self._enroll(login, name)
        return await (login.by_passkey(name) if passkey.is_added else login.sign_in(name))

    async def _enroll(self, login: LocalLogin, name: str) -> SignedInHere:
        code = _code(self.code_file)
        click.echo(password_rule(await login.password_least()), err=True)
        password = ask("New password", True)
        if sys.stdin.isatty() and ask("The new password again", True) != password:
            raise UsageError("the two passwords differ; run the command again")
        return await login.enroll(name, code, password, first_administrator=self.is_first)

    def _key(self, machine: MachineSignIn) -> SecurityKey | None:
        if not self.has_key:
            return None
        from svc.join.security_key import usb_security_key

        return usb_security_key(machine.show, ask)


def local_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of people without a provider, which the command gets as ``words``."""

    @click.option("--name", metavar="NAME", help="The name of your account; asked for by default.")
    @click.option(
        "--enroll",
        is_flag=True,
        help="With a one-time code from your operator, set your password and second factor.",
    )
    @click.option(
        "--first-administrator",
        is_flag=True,
        help="As --enroll, with the code in first-administrator.code; on the Authority's host.",
    )
    @click.option(
        "--code-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="File with the one-time code; asked for by default.",
    )
    @click.option(
        "--security-key",
        is_flag=True,
        help="The second factor is a security key (FIDO2) on USB, not a code.",
    )
    @click.option(
        "--passkey",
        is_flag=True,
        help="Sign in with a passkey, in a browser; with --enroll it is the second factor.",
    )
    @click.option(
        "--add-passkey",
        is_flag=True,
        help="Sign in with password and second factor, and add a passkey to your account.",
    )
    @wraps(command)
    def gathered(
        *args: Any,
        name: str | None,
        enroll: bool,
        first_administrator: bool,
        code_file: Path | None,
        security_key: bool,
        passkey: bool,
        add_passkey: bool,
        **others: Any,
    ) -> None:
        words = LocalWords(
            name=name,
            enrolls=enroll or first_administrator,
            is_first=first_administrator,
            code_file=code_file,
            has_key=security_key,
            passkey=PasskeyWords(passkey, add_passkey),
        )
        command(*args, words=words, **others)

    return gathered


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
