"""What a provider, a machine and a browser answer that signs nobody in, against a stock provider.

Each is refused with its word, and is on record.  Where the tests of each way to sign in, and of
each way not to, are (those in memory have all the forms of a thing, these the real thing):

| What | Here, or in ``test_sign_in`` | In memory (``tests.authority.signin``) |
|---|---|---|
| success | the first test of each class there | ``test_flows.CodeTests`` |
| denied | ``test_browser``; ``DeviceSignInTests.test_denied`` | ``test_device.test_ends`` |
| expired | ``test_expired`` | ``test_device.test_expires_in``, ``test_flows.test_used_once`` |
| ``slow_down`` | ``DeviceSignInTests.test_denied`` | ``test_device.test_slow_down`` |
| wrong audience | ``test_tokens``, ``MachineSignInTests`` | ``test_id_token.BadTokenTests`` |
| wrong issuer | ``test_mix_up`` | ``test_id_token.BadTokenTests`` |
| wrong nonce | ``test_browser`` | ``test_id_token.BadTokenTests`` |
| wrong algorithm, unsigned, oversize | ``test_tokens`` | ``test_id_token.BadTokenTests`` |
| discovery that redirects | ``RenewalTests`` | ``test_provider.MetadataTests`` |
| rotated and unknown keys | ``test_rotated_keys`` | ``test_provider.KeyTests`` |
| mix-up of two providers | ``test_mix_up`` | ``test_flows.MixUpTests`` |
| PKCE downgrade | ``test_browser`` | ``test_provider.MetadataTests`` |
| injection of a code | ``test_browser`` | ``test_flows.test_bound_to_its_key`` |
| second request to the loopback | ``LoopbackTests``, ``BrowserSignInTests.test_loopback`` | |
| ``pending_errors``, ``interval``, ``expires_in`` | | ``test_device.DeviceTests`` |
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from attrs import define, field
from cryptography.hazmat.primitives.asymmetric import ec
from twisted.internet import error
from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.protocol import Protocol
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from svc.authority.signin.id_token import MAX_TOKEN
from svc.authority.signin.strict_json import decode_base64url, encode_base64url
from svc.errors import SvcError
from svc.join.loopback import LoopbackRedirect
from svc.join.person import parse_addresses
from svc.join.sign_in import (
    ASSERT_METHOD,
    BEGIN_METHOD,
    COMPLETE_METHOD,
    POLL_METHOD,
    MachineSignIn,
    SignInPlace,
)
from svc.pki.issue import make_request
from svc.proto.gate.v1 import sign_in_pb2 as pb
from svc.runtime.context import Runtime
from tests.support.temporary import process_directory
from tests.system.provider import IdentityProvider, provider
from tests.system.signing_in import check_refusals, stage

RUN_BY = "make fault"

reactor: Any = _reactor

NOBODY = "http://127.0.0.1:9"
"""Where the browser would go back to; it is stopped there."""
ADA = {"email": "ada@example.org", "email_verified": True}


@define(eq=False)
class Laptop:
    """A machine that may say to the Authority whatever it likes, through the Proxy."""

    directory: Path = field(factory=lambda: process_directory("svc-laptop-"))

    async def begin(self, flow: str = "code") -> Any:
        """Begin a sign-in; what the Authority says of it."""
        asked = pb.SignInBeginRequest(csr=self._request(), flow=flow, port=9)
        return await self._call(BEGIN_METHOD, asked, pb.SignInBeginResponse)

    async def complete(self, begun: Any, query: str) -> Any:
        """Bring what the browser brought back."""
        asked = pb.SignInCompleteRequest(attempt=begun.attempt, query=query)
        return await self._call(COMPLETE_METHOD, asked, pb.SignInResponse)

    async def poll(self, begun: Any) -> Any:
        """Ask whether the person has signed in elsewhere."""
        asked = pb.SignInPollRequest(attempt=begun.attempt)
        return await self._call(POLL_METHOD, asked, pb.SignInPollResponse)

    async def bring(self, token: str) -> Any:
        """Sign in by an ID token."""
        asked = pb.SignInAssertRequest(csr=self._request(), id_token=token)
        return await self._call(ASSERT_METHOD, asked, pb.SignInResponse)

    def _request(self) -> bytes:
        return make_request(ec.generate_private_key(ec.SECP256R1()))

    async def _call(self, method: str, asked: Any, answer: type[Any]) -> Any:
        gateway = stage().gateway
        place = SignInPlace(
            directory=self.directory,
            proxies=parse_addresses("--proxy", (gateway.public,)),
            authority=None,
            pin=gateway.pin,
            writes_config=False,
        )
        runtime = Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ={})
        return await MachineSignIn(runtime, place, lambda line: None).unary(method, asked, answer)


@cache
def other_provider() -> IdentityProvider:
    """Another one: a stranger's, or the honest one of another cluster."""
    return provider(process_directory("svc-provider-"))


def changed(url: str, **changes: str | None) -> str:
    """An address with some parameters changed; with None one is left out."""
    head, _, query = url.partition("?")
    pairs = {**dict(parse_qsl(query)), **changes}
    return f"{head}?{urlencode({name: each for name, each in pairs.items() if each is not None})}"


def returned(of: IdentityProvider, url: str) -> str:
    """The query that a browser brings back, in which somebody has signed in at that address."""
    of.set_accounts(ada=ADA)
    browser = of.browser()
    browser.stops_at = NOBODY
    return urlsplit(browser.sign_in(url, "ada").text).query


def recoded(token: str, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
    """A token with another header or other claims, under the signature that it had."""
    head, body, signature = token.split(".")
    if header is not None:
        head = encode_base64url(json.dumps(header).encode())
    said = {**json.loads(decode_base64url(body)), **claims}
    return f"{head}.{encode_base64url(json.dumps(said).encode())}.{signature}"


class HostileSignInTests(TestCase):
    """Each test ends with the records of what it was refused for."""

    timeout = 90

    def setUp(self) -> None:
        self.here, self.laptop = stage(), Laptop()
        self.provider = self.here.provider

    async def refusal(self, asking: Any) -> str:
        """The word by which it is refused."""
        try:
            await asking
        except SvcError as refused:
            return refused.reason
        raise AssertionError("nobody refused it")

    async def brought(self, begun: Any, query: str) -> str:
        """The word by which the browser's return is refused."""
        return await self.refusal(self.laptop.complete(begun, query))

    async def test_browser(self) -> None:
        """Denied, of another nonce, without PKCE, of another attempt: as the provider answers."""
        begun = await self.laptop.begin()
        browser = self.provider.browser()
        browser.stops_at = NOBODY
        denied = urlsplit(browser.deny(begun.url).text).query
        self.assertEqual(await self.brought(begun, denied), "sign_in_denied")

        begun = await self.laptop.begin()
        query = returned(self.provider, changed(begun.url, nonce="n" * 43))
        self.assertEqual(await self.brought(begun, query), "id_token_nonce")

        for changes in (
            {"code_challenge": None, "code_challenge_method": None},
            {"code_challenge_method": "plain"},
            {"code_challenge": "c" * 43},  # of a verifier that only the attacker has
        ):
            begun = await self.laptop.begin()
            query = returned(self.provider, changed(begun.url, **changes))
            self.assertEqual(await self.brought(begun, query), "provider_refused", changes)

        begun, victims = await self.laptop.begin(), await self.laptop.begin()
        stolen = returned(self.provider, victims.url)
        self.assertEqual(await self.brought(begun, stolen), "redirect_state")
        begun = await self.laptop.begin()
        code = parse_qs(stolen)["code"][0]
        injected = changed(f"?{stolen}", state=begun.state, code=code).removeprefix("?")
        self.assertEqual(await self.brought(begun, injected), "provider_refused")
        self.assertEqual(await self.brought(begun, injected), "attempt_unknown")
        check_refusals(
            self.here.gateway,
            *("sign_in_denied", "id_token_nonce", "provider_refused", "redirect_state"),
        )

    async def test_mix_up(self) -> None:
        """What another provider answers is of no use, and its code is shown to nobody."""
        other = other_provider()
        redeemed = self.provider.seen("/token")
        for changes in ({}, {"iss": None}, {"iss": f"{self.provider.issuer}/"}, {"iss": ""}):
            begun = await self.laptop.begin()
            query = returned(other, begun.url.replace(self.provider.issuer, other.issuer))
            self.assertEqual(parse_qs(query)["iss"], [other.issuer])
            query = changed(f"?{query}", **changes).removeprefix("?")
            self.assertEqual(await self.brought(begun, query), "redirect_issuer", changes)
        begun = await self.laptop.begin()
        query = urlencode({"state": begun.state, "iss": other.issuer, "error": "access_denied"})
        self.assertEqual(await self.brought(begun, query), "redirect_issuer")
        self.assertEqual(self.provider.seen("/token"), redeemed)
        self.assertEqual(other.seen("/token"), 0)

        cluster = self.here.gateway.files.cluster
        other.add_cluster(cluster)
        token = other.id_token(cluster, "ada")
        self.assertEqual(await self.refusal(self.laptop.bring(token)), "id_token_issuer")
        check_refusals(self.here.gateway, "redirect_issuer", "id_token_issuer")

    async def test_tokens(self) -> None:
        """Unsigned, of another algorithm, altered, too large: a good token that was turned bad."""
        cluster = self.here.gateway.files.cluster
        self.provider.add_cluster(cluster)
        self.provider.set_accounts(ada=ADA)
        good = self.provider.id_token(cluster, "ada")
        for word, token in (
            ("unsigned", recoded(good, {"alg": "none"}).rpartition(".")[0] + "."),
            ("alg", recoded(good, {"alg": "HS256"})),
            ("signature", recoded(good, sub="somebody")),
            ("oversize", "x" * (MAX_TOKEN + 1)),
            ("critical", recoded(good, {"alg": "RS256", "crit": ["b64"], "b64": False})),
            ("audience", self.provider.id_token("svc", "ada")),
        ):
            reason = await self.refusal(self.laptop.bring(token))
            self.assertEqual(reason, f"id_token_{word}")
        words = ("unsigned", "alg", "signature", "oversize", "critical", "audience")
        check_refusals(self.here.gateway, *(f"id_token_{word}" for word in words))

    async def test_rotated_keys(self) -> None:
        """A new key is fetched once in a minute; what is signed by one after it is refused."""
        cluster = self.here.gateway.files.cluster
        self.provider.add_cluster(cluster)
        self.provider.set_accounts(ada=ADA)
        self.addCleanup(self.provider.sign_by, "first")
        self.provider.sign_by("first")
        answer = await self.laptop.bring(self.provider.id_token(cluster, "ada"))
        self.assertEqual(answer.name, ADA["email"])
        fetched = self.provider.seen("/jwks")
        self.provider.sign_by("second")
        token = self.provider.id_token(cluster, "ada")
        self.assertEqual(await self.refusal(self.laptop.bring(token)), "id_token_key")
        self.assertEqual(self.provider.seen("/jwks"), fetched)
        check_refusals(self.here.gateway, "id_token_key")

    async def test_expired(self) -> None:
        """A device code that nobody types in time is given up."""
        self.provider.have_device_codes_live(1)
        self.addCleanup(self.provider.have_device_codes_live, 600)
        begun = await self.laptop.begin("device")
        self.assertEqual(begun.expires_in, 1)
        await deferLater(reactor, 1.0)
        self.assertEqual(await self.refusal(self.laptop.poll(begun)), "device_expired")
        self.assertEqual(await self.refusal(self.laptop.poll(begun)), "attempt_unknown")
        check_refusals(self.here.gateway, "device_expired")


class Asking(Protocol):
    """A browser's connection.

    Attributes:
        told: Fires with the page, once all of it is there.
    """

    def __init__(self) -> None:
        self.came = b""
        self.told: Deferred[bytes] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        """Called by Twisted."""
        self.came += data
        if b"</p>" in self.came:
            assert self.transport is not None
            self.transport.loseConnection()
            self.told.callback(self.came)

    def ask(self, host: str, query: str) -> None:
        """Send a request for the callback."""
        line = f"GET /callback?{query} HTTP/1.1\r\nhost: {host}\r\n\r\n"
        assert self.transport is not None
        self.transport.write(line.encode())


class LoopbackTests(TestCase):
    """The listener of ``svc login``."""

    timeout = 20

    async def test_second_request(self) -> None:
        """Over a connection that was there it is refused, while the first is judged and after."""
        loopback = LoopbackRedirect(reactor)
        port = await loopback.listen()
        loopback.expect("s1")
        host = f"127.0.0.1:{port}"
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", port)
        # Taken in the order in which they came: when the first of them asks, the others are there.
        third, second, first = [await connectProtocol(endpoint, Asking()) for _ in range(3)]
        first.ask(host, "state=s1&code=c1")
        self.assertEqual(await loopback.query, "state=s1&code=c1")
        second.ask(host, "state=s1&code=c2")
        self.assertIn(b"410 Gone", await second.told)
        await self.assertFailure(connectProtocol(endpoint, Asking()), error.ConnectionRefusedError)
        closing = Deferred.fromCoroutine(loopback.close("You are signed in."))
        third.ask(host, "state=s1&code=c3")
        self.assertIn(b"410 Gone", await third.told)
        self.assertIn(b"You are signed in.", await first.told)
        await closing
