"""People who sign in by ``svc login`` at a stock identity provider, for the modules with some."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache

from attrs import define

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, svc_command, until
from svc.testing.gateway.settings import GatewayTarget
from tests.support.temporary import process_directory
from tests.system.provider import Browser, IdentityProvider, Page, provider
from tests.system.world import around

LEAF_SECS = 3600


@define(eq=False)
class SignInStage:
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
        if not (person.directory / "client.toml").exists():
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
        # The last line may be half written.
        whole = child.text().split("\n")[:-1]
        lines = [line for line in whole if line.startswith("https://")]
        return lines[0] if lines else ""

    return until("the address to open", look, alive=[child])


def groups_of(gateway: Gateway, name: str) -> list[str]:
    """The groups of a person."""
    rows = gateway.operator("persons", "list", "--json").json
    found: list[str] = next(row["groups"] for row in rows if row["name"] == name)
    return found


@cache
def stage() -> SignInStage:
    """The stage of this process's tests."""
    return signing_in(provider(process_directory("svc-provider-")), LEAF_SECS)


def signing_in(found: IdentityProvider, leaf_secs: int) -> SignInStage:
    """A gateway where people sign in at this provider, with certificates of so many seconds."""
    target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
    numbers = {
        **found.keys,
        "oidc.groups_claim": "groups",
        "oidc.create_persons": True,
        "identity.person_leaf_secs": leaf_secs,
    }
    gateway = make_gateway([target], numbers=numbers)
    gateway.operator("groups", "add", "ops")
    return SignInStage(gateway, found)


def check_refusals(gateway: Gateway, *reasons: str) -> None:
    """AssertionError unless sign-ins that were refused for these reasons are in the log.

    They are there before anybody is told.
    """
    store = f"file:{gateway.files.store}?mode=ro"
    with closing(sqlite3.connect(store, uri=True, timeout=10)) as log:
        rows = log.execute(
            "SELECT json_extract(canonical, '$.reason') FROM audit_log"
            " WHERE json_extract(canonical, '$.event') = 'sign_in.refused'"
        ).fetchall()
    missing = set(reasons) - {reason for (reason,) in rows}
    assert not missing, f"no record of {missing}"
