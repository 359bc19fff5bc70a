"""People with a passkey: real processes, and headless Chromium with an authenticator of its own."""

from __future__ import annotations

import json
import os
import re
import socket
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define, field
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.trial.unittest import SynchronousTestCase

from svc.pki.files import certificates_pem, key_pem
from svc.testing.gateway.files import free_ports
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, POLICY, GatewayTarget
from tests.support.chromium import Chromium, Page
from tests.support.public_name import certificate_of
from tests.support.temporary import process_directory
from tests.support.tools import stock_tool
from tests.system.typed import PASSWORD, TypedLogin, first_words, new_person
from tests.system.world import around

RUN_BY = "make fault"

NAME = "sign-in.test"
BACK = "location.hostname == '127.0.0.1' && document.readyState == 'complete'"
"""Whether the browser shows what the command serves at the end."""

WANTS_FACTOR = """
@id("recent-factor")
forbid (principal, action == Action::"tcpConnect", resource)
unless { context has mfa_age_seconds && context.mfa_age_seconds < %d };
"""
_AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@define(eq=False)
class NamedGateway:
    """A gateway whose Authority has a public name, and a browser that finds it there.

    Attributes:
        spki: Of the certificate of that name.
    """

    directory: Path
    gateway: Gateway = field(init=False)
    spki: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        cert, private = self.directory / "cert.pem", self.directory / "key.pem"
        cert.write_bytes(certificates_pem(certificate_of(NAME, key)))
        private.touch(0o600)
        private.write_bytes(key_pem(key))
        public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.spki = b64encode(sha256(public).digest()).decode()
        target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
        self.gateway = make_gateway(
            [target],
            numbers={
                "accounts.passkeys.public_name": NAME,
                "accounts.passkeys.listen": f"127.0.0.1:{free_ports()[0]}",
                "accounts.passkeys.cert": str(cert),
                "accounts.passkeys.key": str(private),
            },
        )

    @property
    def listener(self) -> str:
        """Where the page is served."""
        return self.gateway.listening(AUTHORITY)["sign_in"]

    def code(self, name: str) -> str:
        """A new one-time code of somebody."""
        words = ("accounts", "add", name, "--group", "ops", "--create-groups")
        return self.gateway.operator(*words).stdout.strip()

    def refusals(self) -> list[str]:
        """Why sign-ins were refused, by the log."""
        lines = self.gateway.operator("audit", "export").stdout.splitlines()
        records = [json.loads(line) for line in lines if "sign_in.refused" in line]
        return [record["reason"] for record in records]


@cache
def named() -> NamedGateway:
    """The one of this process."""
    return NamedGateway(process_directory("svc-name-"))


class PasskeyTests(SynchronousTestCase):
    """Somebody with a browser."""

    def setUp(self) -> None:
        stock_tool("chromium")
        self.named = named()
        rules = f"MAP {NAME}:443 {self.named.listener}, MAP * ~NOTFOUND, EXCLUDE 127.*"
        self.browser = Chromium(
            Path(os.path.abspath(self.mktemp())),
            (
                f"--host-resolver-rules={rules}",
                f"--ignore-certificate-errors-spki-list={self.named.spki}",
            ),
        )
        self.addCleanup(self.browser.close)
        self.page = self.browser.page()
        self.page.command("WebAuthn.enable")
        self.authenticator = self.add_authenticator()

    def add_authenticator(self, **options: Any) -> str:
        """One more authenticator of this browser."""
        given = {**_AUTHENTICATOR, **options}
        made = self.page.command("WebAuthn.addVirtualAuthenticator", options=given)
        return str(made["authenticatorId"])

    def login(self, person: GatewayPerson, *words: str) -> TypedLogin:
        """``svc login`` under way, without a browser of its own."""
        return TypedLogin(person, (*words, "--no-browser", *first_words(self.named.gateway)))

    def open(self, login: TypedLogin) -> Page:
        """The page of a command, in the browser."""
        self.page.open(login.line("https://"))
        return self.page

    def use(self, login: TypedLogin) -> str:
        """Use the passkey; what the browser shows in the end."""
        page = self.open(login)
        page.click("#go")
        page.wait_for(BACK)
        return page.text

    def enrolled(self, name: str) -> tuple[GatewayPerson, list[str]]:
        """Somebody whose second factor is a passkey, and their recovery codes."""
        person = new_person(self.named.gateway, name)
        login = self.login(person, "--enroll", "--passkey")
        login.type(name, self.named.code(name), PASSWORD)
        self.assertIn(f"You are signed in as {name}.", self.use(login))
        return person, re.findall(r"(?m)^  ([a-z2-7]{4}(?:-[a-z2-7]{4}){3})$", login.ended())

    def passkeys(self, name: str) -> list[str]:
        """The ids of somebody's passkeys, as an operator sees them."""
        listed = self.named.gateway.operator("accounts", "passkeys", name, "--json").json
        return [one["id"] for one in listed]

    def test_signs_in(self) -> None:
        """A passkey is made with a one-time code, and signs in on another machine by itself."""
        self.enrolled("ada")
        laptop = new_person(self.named.gateway, "ada-laptop")
        login = self.login(laptop, "--passkey")
        self.assertIn("You are signed in as ada.", self.use(login))
        self.assertIn("as ada, in ops", login.ended())
        laptop.up("echo")
        with socket.create_connection(laptop.endpoint("echo"), 20) as session:
            session.sendall(b"hello")
            self.assertEqual(session.recv(5), b"hello")
        self.named.gateway.verify()

    def test_another(self) -> None:
        """A second passkey is added by a recovery code; the first is taken away by an operator."""
        person, codes = self.enrolled("bob")
        (first,) = self.passkeys("bob")
        words = ("--add-passkey", "--name", "bob")
        login = self.login(person, *words)
        login.type(PASSWORD, codes[0])
        page = self.open(login)
        page.click("#go")
        # The authenticator has one of this account already, and says so to the browser.
        page.wait_for("document.getElementById('said').textContent.includes('no passkey')")
        self.page.command("WebAuthn.removeVirtualAuthenticator", authenticatorId=self.authenticator)
        self.add_authenticator(transport="usb")
        page.click("#go")
        page.wait_for(BACK)
        login.ended()
        second = next(one for one in self.passkeys("bob") if one != first)
        remove = ("accounts", "remove-passkey", "bob", second)
        self.assertIn("removed the passkey of bob", self.named.gateway.operator(*remove).stdout)
        self.assertEqual(self.passkeys("bob"), [first])

        login = self.login(person, "--passkey")
        page = self.open(login)
        page.click("#go")
        page.wait_for("document.getElementById('said').textContent.includes('signs nobody in')")
        until("the record", lambda: "key_unknown" in self.named.refusals())
        login.process.kill()
        login.ended(-9)

    def test_recent_factor(self) -> None:
        """A policy may want a second factor of not long ago; who lacks it is told to sign in."""
        gateway = self.named.gateway
        person, _ = self.enrolled("dee")
        person.up("echo")
        self.addCleanup(gateway.set_policy, POLICY)
        gateway.set_policy(f"{POLICY}{WANTS_FACTOR % 3600}")
        with socket.create_connection(person.endpoint("echo"), 20) as session:
            session.sendall(b"hello")
            self.assertEqual(session.recv(5), b"hello")
        gateway.set_policy(f"{POLICY}{WANTS_FACTOR % 1}")
        until("the factor is older than a second", lambda: self.is_refused(person))
        log = person.home / "up.log"
        until("the advice", lambda: "sign in again" in log.read_text("utf-8"))

    def is_refused(self, person: GatewayPerson) -> bool:
        """Whether no session opens; its reset may come while the connection is made."""
        try:
            with socket.create_connection(person.endpoint("echo"), 20) as session:
                session.sendall(b"hello")
                return session.recv(5) == b""
        except ConnectionError:
            return True

    def test_not_verified(self) -> None:
        """A passkey that does not verify its holder is not even asked of Authority."""
        person, _ = self.enrolled("cy")
        self.page.command(
            "WebAuthn.setUserVerified",
            authenticatorId=self.authenticator,
            isUserVerified=False,
        )
        login = self.login(person, "--passkey")
        page = self.open(login)
        page.click("#go")
        page.wait_for("document.getElementById('said').textContent.includes('no passkey')")
        login.process.kill()
        login.ended(-9)
