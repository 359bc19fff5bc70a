"""People without a provider, with real processes: from nothing to a first session."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from functools import cache
from pathlib import Path
from unittest import TestCase

from contrib.reference.json_names import unknown
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.processes import Ran, run, until
from svc.testing.gateway.settings import GatewayTarget
from tests.support.files import contents_below
from tests.system.typed import (
    PASSWORD,
    AccountHolder,
    TypedLogin,
    enrolled,
    first_words,
    new_person,
)
from tests.system.world import around


@cache
def gateway() -> Gateway:
    """The gateway of this process's tests."""
    target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
    return make_gateway([target])


@cache
def first() -> AccountHolder:
    """The first administrator, by the file that the Authority wrote at its start."""
    here = gateway()
    file = here.files.state("authority") / "first-administrator.code"
    words = ("--first-administrator", "--code-file", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    return enrolled(here, new_person(here, "root"), "", *words)


@cache
def ada() -> AccountHolder:
    """Somebody whom an operator gave a code."""
    here = gateway()
    first()
    code = here.operator("accounts", "add", "ada", "--group", "ops", "--create-groups")
    return enrolled(here, new_person(here, "ada"), code.stdout.strip(), "--enroll")


def refusals(here: Gateway) -> list[str]:
    """Why sign-ins were refused, by the log."""
    lines = here.operator("audit", "export").stdout.splitlines()
    records = [json.loads(line) for line in lines if "sign_in.refused" in line]
    return [record["reason"] for record in records]


class AccountTests(TestCase):
    """Password and second factor."""

    def test_first_session(self) -> None:
        """Somebody sets a password with a code, signs in elsewhere later, and opens a session."""
        here, holder = gateway(), ada()
        self.assertEqual(len(holder.recovery), 10)
        person = holder.person
        person.up("echo")
        with socket.create_connection(person.endpoint("echo"), 20) as session:
            session.sendall(b"hello")
            self.assertEqual(session.recv(5), b"hello")
        self.assertIn("renews it until", person.svc("status").stdout)

        laptop = new_person(here, "ada-laptop")
        login = TypedLogin(laptop, ("--name", "ada", "--json", *first_words(here)))
        login.type(PASSWORD, holder.recovery[0])
        found = json.loads(login.ended())
        self.assertEqual((found["name"], found["groups"]), ("ada", ["ops"]))
        self.assertEqual(list(unknown(found)), [])
        (row,) = [
            one for one in here.operator("accounts", "list", "--json").json if one["name"] == "ada"
        ]
        self.assertEqual((row["second_factors"], row["recovery_codes_left"]), (["totp"], 9))
        here.verify()

    def test_refused_alike(self) -> None:
        """Whatever is wrong, the words are the same; the operator finds the reason in the log."""
        here, holder = gateway(), ada()
        laptop = new_person(here, "laptop")
        code = holder.last_code.split()[0]
        said = set()
        for name, password, given in (
            ("ada", PASSWORD, code),
            ("ada", "some other password", "123456"),
            ("nobody", PASSWORD, "123456"),
            ("ada", PASSWORD, "aaaa-bbbb-cccc-dddd"),
        ):
            login = TypedLogin(laptop, ("--local", *first_words(here)))
            login.type(name, password, given)
            said.add(login.ended(1))
        self.assertEqual(len(said), 1, said)
        wanted = {"code_replayed", "password_wrong", "account_unknown", "recovery_wrong"}
        until("the records", lambda: wanted <= set(refusals(here)))

    def test_left_nowhere(self) -> None:
        """What somebody signs in by is in no file: not in the store, a log, or on the laptop."""
        here, holder = gateway(), ada()
        secrets = [PASSWORD, holder.totp.secret, *holder.recovery, holder.code]
        # What the command itself showed its person is the person's.
        files = [one for one in contents_below(here.directory) if one[0].name != "login.log"]
        self.assertGreater(len(files), 20)
        for path, data in files:
            found = [secret for secret in secrets if secret.encode() in data]
            self.assertEqual(found, [], str(path))

    def test_security_key(self) -> None:
        """A key in software enrolls and signs in through a Proxy; a copy of it is seen."""
        here = gateway()
        first()
        code = here.operator("accounts", "add", "eve", "--group", "ops", "--create-groups")
        person = new_person(here, "eve")
        person.home.mkdir(mode=0o700)
        file, copy = (person.home / name for name in ("key.json", "copy.json"))

        def login(key: Path, *words: str) -> Ran:
            asked = (str(key), here.public, here.pin, "eve", *words)
            command = (sys.executable, "-m", "tests.system.soft_login", *asked)
            return run(command, person.home, stdin=f"{PASSWORD}\n".encode(), seconds=60)

        done = login(file, code.stdout.strip()).checked()
        self.assertIn("eve: 10 recovery codes", done.stdout)
        shutil.copy(file, copy)
        self.assertIn("verify yourself at your security key", login(file).checked().stderr)
        refused = login(copy)
        self.assertNotEqual(refused.status, 0)
        self.assertIn("second factor is not right", refused.stderr)
        until("the record", lambda: "key_count" in refusals(here))

    def test_first_administrator(self) -> None:
        """The file makes one administrator; then it is gone, and is not made again."""
        here, holder = gateway(), first()
        self.assertFalse((here.files.state("authority") / "first-administrator.code").exists())
        refused = here.operator("accounts", "first-administrator", check=False)
        self.assertIn("administrator_exists", refused.stderr)
        (row,) = [
            one for one in here.operator("persons", "list", "--json").json if one["name"] == "root"
        ]
        self.assertEqual(row["groups"], ["administrators"])
        done = holder.person.svc("logout").checked()
        self.assertIn("signed out", done.stdout)
