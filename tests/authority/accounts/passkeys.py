"""Somebody with a browser, and a passkey in software in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field

from svc.authority.page.pages import Answer, IncomingRequest
from svc.authority.sign_in_page.pages import SignInPages
from svc.authority.signin.strict_json import decode_base64url, encode_base64url
from svc.join.account import KeyRequest
from svc.join.security_key import PluggedKeys
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import account_pb2 as pb
from tests.authority.accounts.memory import PASSWORD, AccountHouse
from tests.authority.house import Call, value_of
from tests.pki.support import CLUSTER
from tests.support.security_key import SoftKey

NAME = "sign-in.example.org"
ORIGIN = f"https://{NAME}"
PORT = 40_000


@define(eq=False)
class PasskeyBrowser:
    """A browser that is asked by the page's own data, as its script would ask it."""

    at: AccountHouse
    key: SoftKey = field(factory=SoftKey)

    @property
    def pages(self) -> SignInPages:
        """What answers."""
        return SignInPages(CLUSTER, self.at.passkeys)

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        """One request; of the page's own origin unless it is said otherwise."""
        answer: Answer = value_of(self.asking(method, path, **more))
        return answer

    async def asking(self, method: str, path: str, **more: Any) -> Answer:
        """Make one request."""
        given: dict[str, Any] = {"hosts": [NAME.encode()]}
        if method == "POST":
            given |= {"origins": [ORIGIN.encode()], "sites": [b"same-origin"]}
            given |= {"types": [b"application/json"]}
        asked = IncomingRequest(method=method, path=path, **{**given, **more})
        return await self.pages.answer(asked, NAME)

    def asked(self, begun: pb.BrowserAttempt) -> dict[str, Any]:
        """What the page asks the browser for."""
        answer = self.ask("GET", urlsplit(begun.url).path)
        assert answer.status == 200, answer.body
        text = answer.body.decode().partition('data-asked="')[2].partition('"')[0]
        found: dict[str, Any] = json.loads(text.replace("&quot;", '"'))
        return found

    def used(self, begun: pb.BrowserAttempt, **other: Any) -> dict[str, str]:
        """What the browser brings of its passkey; *other*: of another request."""
        asked = self.asked(begun)
        made: pb.KeyAssertion = value_of(self._plugged().sign(self._wanted(asked, **other)))
        owner = self.key.credentials[-1].user["id"]
        return {
            "id": encode_base64url(made.credential_id),
            "user_handle": encode_base64url(owner),
            "client_data": encode_base64url(made.client_data),
            "authenticator_data": encode_base64url(made.authenticator_data),
            "signature": encode_base64url(made.signature),
        }

    def made(self, begun: pb.BrowserAttempt, **other: Any) -> dict[str, str]:
        """What it brings of a new passkey."""
        asked = self.asked(begun)
        owner = asked["owner"]
        wanted = self._wanted(
            asked, user=owner["name"], user_handle=decode_base64url(owner["handle"]), **other
        )
        made: pb.KeyRegistration = value_of(self._plugged().register(wanted))
        return {
            "client_data": encode_base64url(made.client_data),
            "attestation": encode_base64url(made.attestation),
        }

    def send(self, begun: pb.BrowserAttempt, brought: Mapping[str, Any], **more: Any) -> Answer:
        """Bring it."""
        answer: Answer = value_of(self.sending(begun, brought, **more))
        return answer

    async def sending(
        self, begun: pb.BrowserAttempt, brought: Mapping[str, Any], **more: Any
    ) -> Answer:
        """Bring it, and wait for what is said."""
        body = json.dumps(brought).encode()
        return await self.asking("POST", urlsplit(begun.url).path, **{"body": body, **more})

    def left(self, begun: pb.BrowserAttempt, brought: Mapping[str, Any]) -> str:
        """The query that the browser goes to 127.0.0.1 with."""
        answer = self.send(begun, brought)
        assert answer.status == 200, answer.body
        url = urlsplit(json.loads(answer.body)["location"])
        assert (url.scheme, url.netloc, url.path) == ("http", f"127.0.0.1:{PORT}", "/callback")
        return str(url.query)

    def _wanted(self, asked: Mapping[str, Any], **other: Any) -> KeyRequest:
        given = {
            "challenge": decode_base64url(asked["challenge"]),
            "rp_id": asked["rp_id"],
            "origin": ORIGIN,
            "user": "",
        }
        return KeyRequest(**{**given, **other})

    def _plugged(self) -> PluggedKeys:
        return PluggedKeys(lambda: [self.key], lambda line: None, lambda what, hidden: "")

    # -- the command

    async def beginning(self, **more: Any) -> pb.BrowserAttempt:
        """Begin a sign-in."""
        given = {"csr": make_request(new_key()), "port": PORT, **more}
        return await self.at.service._begin_passkey(pb.BeginPasskeyRequest(**given), Call())

    def begin(self, **more: Any) -> pb.BrowserAttempt:
        """A sign-in under way."""
        begun: pb.BrowserAttempt = value_of(self.beginning(**more))
        return begun

    async def complete(self, begun: pb.BrowserAttempt, query: str) -> pb.LocalSignInResponse:
        """Complete it."""
        request = pb.CompletePasskeyRequest(attempt=begun.attempt, query=query)
        return await self.at.service._complete_passkey(request, Call())

    def enroll(self, name: str, **more: Any) -> pb.LocalSignInResponse:
        """Set a password and a passkey, by a one-time code."""
        code = self.at.code(name)
        begun = value_of(self.at.begin(name, code, passkey=True, port=PORT, **more)).browser
        query = self.left(begun, self.made(begun))
        answer: pb.LocalSignInResponse = value_of(self.at.complete(begun, query=query))
        return answer

    def add(self, name: str, code: str) -> pb.LocalSignInResponse:
        """Add a passkey to an account, by password and second factor."""
        added_to = pb.LocalSignInRequest(name=name, password=PASSWORD, code=code)
        begun = self.begin(added_to=added_to)
        query = self.left(begun, self.made(begun))
        answer: pb.LocalSignInResponse = value_of(self.complete(begun, query))
        return answer

    def sign_in(self) -> pb.LocalSignInResponse:
        """Sign in."""
        begun = self.begin()
        answer: pb.LocalSignInResponse = value_of(
            self.complete(begun, self.left(begun, self.used(begun)))
        )
        return answer
