"""``svc login`` whose questions a test answers, through pipes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyotp
from attrs import define, field

from svc.testing.gateway.gateway import Gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import begun, environment, svc_command, until

PASSWORD = "correct horse battery"


@define(eq=False)
class TypedLogin:
    """One command, and what is typed into it."""

    person: GatewayPerson
    words: tuple[str, ...]
    process: Any = field(init=False)
    given: int = field(init=False)
    log: Path = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.person.home.mkdir(mode=0o700, exist_ok=True)
        its_input, self.given = os.pipe()
        self.log = self.person.home / "login.log"
        with open(its_input, "rb") as stdin, self.log.open("wb") as out:
            self.process = begun(
                svc_command("login", *self.words),
                environment(self.person.home, {}),
                self.person.home,
                (stdin, out, out),
            )

    def type(self, *lines: str) -> None:
        """Type these lines."""
        os.write(self.given, "".join(f"{line}\n" for line in lines).encode())

    def text(self) -> str:
        """What it has said."""
        return self.log.read_text("utf-8")

    def line(self, start: str) -> str:
        """A line that begins so, waited for."""

        def look() -> str:
            # The last line may be half written.
            lines = [one for one in self.text().split("\n")[:-1] if one.startswith(start)]
            return lines[0] if lines else ""

        return until(f"a line {start}", look)

    def ended(self, status: int = 0) -> str:
        """What it said, once it has ended with this status.

        Raises:
            AssertionError: with another.
        """
        os.close(self.given)
        found = self.process.wait(60)
        assert found == status, (found, self.text())
        return self.text()


@define(eq=False)
class AccountHolder:
    """Somebody with an account: an authenticator app and recovery codes."""

    person: GatewayPerson
    totp: pyotp.TOTP
    recovery: list[str]
    code: str = ""
    last_code: str = ""

    def new_code(self) -> str:
        """The next code that was not shown yet."""

        def look() -> str:
            # The next step's code is taken already: half a minute need not pass for each.
            for ahead in (0, 30):
                code = self.totp.at(int(time.time()) + ahead)
                if code not in self.last_code.split():
                    return code
            return ""

        code = until("the next code of the app", look, 40)
        self.last_code += f" {code}"
        return code


def new_person(gateway: Gateway, name: str) -> GatewayPerson:
    """Somebody with a home and nothing in it."""
    person = GatewayPerson(name, gateway.directory / f"home-{name}", gateway.files.cluster)
    gateway.people.append(person)
    return person


def first_words(gateway: Gateway) -> tuple[str, ...]:
    """What is given only the first time."""
    return ("--proxy", gateway.public, "--ca-pin", gateway.pin)


def enrolled(
    gateway: Gateway, person: GatewayPerson, code: str, *words: str, name: str = ""
) -> AccountHolder:
    """Set a password and a second factor, as the docs say."""
    login = TypedLogin(person, (*words, *first_words(gateway)))
    login.type(name or person.name)
    if "--code-file" not in words:
        login.type(code)
    login.type(PASSWORD)
    totp = pyotp.parse_uri(login.line("otpauth://"))
    assert isinstance(totp, pyotp.TOTP)
    holder = AccountHolder(person=person, totp=totp, recovery=[], code=code or "no code")
    login.type(holder.new_code())
    text = login.ended()
    holder.recovery = [line.strip() for line in text.splitlines() if line.count("-") == 3]
    return holder
