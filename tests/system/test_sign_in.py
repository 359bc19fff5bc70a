"""``svc login`` with real processes and a stock identity provider."""

from __future__ import annotations

import shutil
import socket
import time
from functools import cache
from unittest import TestCase
from urllib.parse import parse_qs, urlsplit

from contrib.reference.json_names import unknown
from svc.authority.signin.provider import FAILED_SECS
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, Ran, run, svc_command, until
from tests.support.files import contents_below
from tests.support.proof import proves
from tests.system.provider import CLIENT
from tests.system.signing_in import (
    LEAF_SECS,
    SignInStage,
    address_of,
    check_refusals,
    groups_of,
    signing_in,
    stage,
)

SHORT_LEAF_SECS = 10
EVE = {"email": "eve@example.org", "email_verified": True, "groups": ["ops"]}
ADA = {"email": "ada@example.org", "email_verified": True, "groups": ["ops", "elsewhere"]}


@cache
def short_lived() -> SignInStage:
    """As the other, with certificates of a few seconds."""
    return signing_in(stage().provider, SHORT_LEAF_SECS)


class BrowserSignInTests(TestCase):
    """Authorization code with PKCE, on a loopback redirect."""

    @proves("U-OIDC-02", "U-OIDC-03")
    def test_signs_in_and_opens_a_session(self) -> None:
        """Somebody new signs in with a browser, and is let to what the provider's groups allow."""
        here = stage()
        here.provider.set_accounts(ada=ADA)
        person = here.person("ada")
        page = here.signed_in(person, here.provider.browser(), "ada")
        self.assertIn("signed in as ada@example.org", page.text)
        (code,) = parse_qs(urlsplit(page.url).query)["code"]
        files = list(contents_below(here.gateway.directory))
        self.assertGreater(len(files), 20)
        self.assertEqual([path for path, data in files if code.encode() in data], [])

        (row,) = here.gateway.operator("persons", "list", "--json").json
        self.assertEqual((row["name"], row["groups"]), ("ada@example.org", ["ops"]))
        person.up("echo")
        with socket.create_connection(person.endpoint("echo"), 20) as session:
            session.sendall(b"hello")
            self.assertEqual(session.recv(5), b"hello")
        left = person.status()["certificate"]["seconds_left"]
        self.assertTrue(LEAF_SECS - 120 < left <= LEAF_SECS, left)
        here.gateway.verify()
        self.told_profiles(person)

    def told_profiles(self, person: GatewayPerson) -> None:
        """The Proxy passes the profile on; one that was kept and differs is named with it."""
        here = stage()
        told = person.svc("login", "--check", "--json").checked().json
        self.assertEqual([one["issuer"] for one in told], [here.provider.issuer] * 2)
        kept = person.directory / "sign-in-profile.json"
        self.assertEqual(told[1]["source"], str(kept))
        text = kept.read_text("utf-8")
        kept.write_text(text.replace(here.provider.issuer, "https://other.example"), "utf-8")
        for words in (("--check",), ("--no-browser",)):
            refused = person.svc("login", *words)
            self.assertEqual(refused.status, 1)
            for word in ("two sources", "https://other.example", here.provider.issuer):
                self.assertIn(word, refused.stderr)

    def test_loopback(self) -> None:
        """Other paths, other states and other names get nothing, and cost the sign-in nothing."""
        here = stage()
        here.provider.set_accounts(ada=ADA)
        person, browser = here.person("loopback"), here.provider.browser()
        child = here.login(person)
        address = address_of(child)
        asked = parse_qs(urlsplit(address).query)
        back = asked["redirect_uri"][0]
        for url, status in (
            (back.replace("/callback", "/"), 404),
            (f"{back}/more", 404),
            (back, 400),
            (f"{back}?state=other&code=c1", 400),
            (f"{back}?state={asked['state'][0]}&state=other&code=c1", 400),
            (back.replace("127.0.0.1", "localhost"), 403),
        ):
            with self.subTest(url):
                self.assertEqual(browser.send("GET", url).status, status)
        self.assertEqual(browser.send("POST", f"{back}?state={asked['state'][0]}").status, 404)
        page = browser.sign_in(address, "ada")
        self.assertIn("signed in as", page.text)
        self.assertEqual(child.wait(), 0, child.text())
        self.assertRaises(OSError, browser.send, "GET", page.url)


class DeviceSignInTests(TestCase):
    """A code that is typed on another device."""

    def begun(self, name: str) -> tuple[GatewayPerson, Child, str]:
        """A sign-in that waits for its person; the address with the code in it."""
        here = stage()
        here.provider.set_accounts(ada=ADA)
        person = here.person(name)
        child = here.login(person, "--device")

        def look() -> str:
            lines = [line for line in child.text().splitlines() if line.startswith("or open ")]
            return lines[0].removeprefix("or open ") if lines else ""

        return person, child, until("the code", look, alive=[child])

    @proves("G-IDN-08")
    def test_signs_in(self) -> None:
        """While the person is away nothing comes of it; once they have signed in, they are in."""
        here = stage()
        person, child, url = self.begun("device")
        page = here.provider.browser().sign_in(url, "ada")
        self.assertEqual(page.status, 200)
        self.assertEqual(child.wait(40), 0, child.text())
        self.assertIn("signed in to", child.text())
        self.assertTrue((person.directory / "client.toml").exists())

    def test_denied(self) -> None:
        """Told to slow down it waits longer; a refusal at the provider ends it, on record."""
        here = stage()
        _, child, url = self.begun("denied")
        asked = here.provider.seen("/token")
        here.provider.answer_next("/token", {"status": 400, "body": {"error": "slow_down"}})
        here.provider.browser().deny(url)
        self.assertEqual(child.wait(40), 1)
        self.assertEqual(here.provider.seen("/token"), asked + 2)
        self.assertIn("denied at the identity provider", child.text())
        check_refusals(here.gateway, "sign_in_denied")


class MachineSignInTests(TestCase):
    """An ID token that a machine has for this cluster."""

    def token(self, audience: str) -> str:
        """An ID token of the provider for this audience."""
        here = stage()
        here.provider.add_cluster(here.gateway.files.cluster)
        here.provider.set_accounts(robot={"email": "robot@example.org", "email_verified": True})
        return here.provider.id_token(audience, "robot")

    def login(self, name: str, token: str) -> Ran:
        """``svc login`` with a token in the environment."""
        here = stage()
        person = here.person(name)
        words = ("--proxy", here.gateway.public, "--ca-pin", here.gateway.pin, "--json")
        return run(svc_command("login", *words), person.home, {"SVC_ID_TOKEN": token})

    def test_signs_in_once(self) -> None:
        """A token for this cluster is taken once; one for the browser's client never."""
        here = stage()
        token = self.token(here.gateway.files.cluster)
        done = self.login("robot", token).checked()
        self.assertEqual(list(unknown(done.json)), [])
        again = self.login("robot2", token)
        self.assertEqual(again.status, 1)
        self.assertIn("used already", again.stderr)
        other = self.login("robot3", self.token(CLIENT))
        self.assertIn("another audience", other.stderr)
        check_refusals(here.gateway, "assertion_replayed", "id_token_audience")
        self.of_an_agent()

    def of_an_agent(self) -> None:
        """A token with the claims that an agent was added with makes no person, but that agent."""
        here = stage()
        cluster, issuer = here.gateway.files.cluster, here.provider.issuer
        here.provider.set_accounts(job={"email": "job@example.org", "email_verified": True})
        claims = ("--oidc-issuer", issuer, "--oidc-claim", "sub=job")
        added = here.gateway.operator(
            "agents", "add", "builder", "--owner", "robot@example.org", *claims, "--json"
        ).json
        token = here.provider.id_token(cluster, "job")
        done = self.login("builder", token).checked()
        self.assertEqual(done.json["name"], "builder")
        (row,) = here.gateway.operator("agents", "list", "--route", "certificate", "--json").json
        self.assertEqual((row["id"], row["issuer"]), (added["id"], issuer))
        self.assertIn("used already", self.login("builder2", token).stderr)
        people = here.gateway.operator("persons", "list", "--json").json
        self.assertNotIn("job@example.org", [one["name"] for one in people])


class RenewalTests(TestCase):
    """A certificate is renewed while the provider's session lasts."""

    def test_renewed_until_the_provider_ends_it(self) -> None:
        """The resident renews by itself; a group left there is left here, and then all ends."""
        here = short_lived()
        here.provider.set_accounts(eve=EVE)
        person = here.person("eve")
        self.discovery_redirects(here, person)
        here.signed_in(person, here.provider.browser(), "eve")
        person.up("echo")
        first = person.status()["certificate"]["expires_at"]
        until("a renewal", lambda: person.status()["certificate"]["expires_at"] > first)
        self.assertEqual(groups_of(here.gateway, "eve@example.org"), ["ops"])
        self.assertIn("`svc up` renews it until", person.svc("status").stdout)

        here.provider.set_accounts(eve={**EVE, "groups": []})
        until("the group left", lambda: not groups_of(here.gateway, "eve@example.org"))
        here.provider.answer_next(
            "/token", *[{"status": 400, "body": {"error": "invalid_grant"}}] * 3
        )
        self.addCleanup(here.provider.answer_next, "/token")  # as it would by itself again
        assert person.resident is not None
        resident = person.resident
        until(
            "no more renewals",
            lambda: resident.events(
                "your certificate is not renewed any more; run `svc login` before it ends"
            ),
        )
        self.assertFalse((person.directory / "sign-in.json").exists())
        here.gateway.verify()

    def discovery_redirects(self, here: SignInStage, person: GatewayPerson) -> None:
        """Before anything is known of the provider: where it points to is not asked."""
        moved = {
            "status": 302,
            "headers": {"location": f"{here.provider.issuer}/moved"},
            "body": "",
        }
        here.provider.answer_next("/.well-known/openid-configuration", moved)
        child = here.login(person)
        self.assertEqual(child.wait(), 1)
        self.assertIn("answered with a redirect, which is not followed", child.text())
        self.assertEqual(here.provider.seen("/moved"), 0)
        self.assertFalse((person.directory / "sign-in-profile.json").exists(), "nobody was sent")
        again = time.monotonic() + FAILED_SECS
        until("the provider may be asked again", lambda: time.monotonic() > again)

    def test_logout(self) -> None:
        """After a logout the certificate is good no more, and neither is a copy of it."""
        here = stage()
        here.provider.set_accounts(ada=ADA)
        person = here.person("leaving")
        here.signed_in(person, here.provider.browser(), "ada")
        copy = here.person("copy")
        shutil.copytree(person.directory, copy.directory, symlinks=True)
        config = copy.directory / "client.toml"
        config.write_text(config.read_text().replace(str(person.home), str(copy.home)))
        revoked = here.provider.seen("/token/revocation")
        done = person.svc("logout", "--json").checked()
        self.assertEqual(list(unknown(done.json)), [])
        self.assertFalse((person.directory / "identity").exists())
        self.assertEqual(here.provider.seen("/token/revocation"), revoked + 1)
        # It is over already: whoever signs out again, as after a lost answer, is told the same.
        copy.svc("logout", "--keep-files").checked()
        resident = copy.up()
        (told, *_) = until("the refusal", lambda: resident.events("no proxy connection"))
        self.assertEqual(told["reason"], "revoked_certificate")
        again = person.svc("logout")
        self.assertEqual(again.status, 64)
        self.assertIn("nobody is signed in here", again.stderr)
        # The cluster is still known, so no pin is asked for.
        here.signed_in(person, here.provider.browser(), "ada")
        self.assertTrue((person.directory / "identity").exists())
