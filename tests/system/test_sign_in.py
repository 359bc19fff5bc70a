"""``svc login`` with real processes and a stock identity provider."""

from __future__ import annotations

import socket
import tempfile
from functools import cache
from pathlib import Path
from unittest import TestCase

from attrs import define

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, svc_command, until
from svc.testing.gateway.settings import GatewayTarget
from tests.system.provider import Browser, IdentityProvider, Page, provider
from tests.system.world import around

LEAF_SECS = 3600
ADA = {"email": "ada@example.org", "email_verified": True, "groups": ["ops", "elsewhere"]}


@define(eq=False)
class Stage:
    """A gateway whose people sign in, and the provider that they sign in at."""

    gateway: Gateway
    provider: IdentityProvider

    def person(self, name: str) -> GatewayPerson:
        """Somebody with a home and nothing in it."""
        gateway = self.gateway
        home = gateway.directory / f"home-{name}"
        home.mkdir(mode=0o700)
        person = GatewayPerson(name, home, gateway.files.cluster)
        gateway.people.append(person)
        return person

    def login(self, person: GatewayPerson, *words: str) -> Child:
        """``svc login`` of somebody, begun."""
        first = []
        if not person.directory.exists():
            first = ["--proxy", self.gateway.public, "--ca-pin", self.gateway.pin]
        child = Child(
            name=f"login-{person.name}",
            words=svc_command("login", "--no-browser", *first, *words),
            home=person.home,
            log=person.home / "login.log",
        )
        child.start()
        return child

    def signed_in(self, person: GatewayPerson, browser: Browser, login: str, *words: str) -> Page:
        """Sign in to the end; the page that the browser shows."""
        child = self.login(person, *words)
        try:
            page = browser.sign_in(address_of(child), login)
        except OSError as failed:
            raise AssertionError(child.text()) from failed
        assert child.wait() == 0, child.text()
        return page


def address_of(child: Child) -> str:
    """The address that ``svc login`` asks its person to open."""

    def look() -> str:
        lines = [line for line in child.text().splitlines() if line.startswith("https://")]
        return lines[0] if lines else ""

    return until("the address to open", look, alive=[child])


@cache
def stage() -> Stage:
    """The stage of this process's tests."""
    directory = Path(tempfile.mkdtemp(prefix="svc-provider-"))
    found = provider(directory)
    target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
    numbers = {
        **found.keys,
        "oidc.groups_claim": "groups",
        "oidc.create_persons": True,
        "identity.person_leaf_secs": LEAF_SECS,
    }
    gateway = make_gateway([target], numbers=numbers)
    gateway.operator("groups", "add", "ops")
    return Stage(gateway, found)


class BrowserSignInTests(TestCase):
    """Authorization code with PKCE, on a loopback redirect."""

    def test_signs_in_and_opens_a_session(self) -> None:
        """Somebody new signs in with a browser, and is let to what the provider's groups allow."""
        here = stage()
        here.provider.set_accounts(ada=ADA)
        person = here.person("ada")
        page = here.signed_in(person, here.provider.browser(), "ada")
        self.assertIn("signed in as ada@example.org", page.text)

        (row,) = here.gateway.operator("persons", "list", "--json").json
        self.assertEqual((row["name"], row["groups"]), ("ada@example.org", ["ops"]))
        person.up("echo")
        with socket.create_connection(person.endpoint("echo"), 20) as session:
            session.sendall(b"hello")
            self.assertEqual(session.recv(5), b"hello")
        left = person.status()["certificate"]["seconds_left"]
        self.assertTrue(LEAF_SECS - 120 < left <= LEAF_SECS, left)
        here.gateway.verify()
