"""What the sign-in page answers: a page for an attempt, its script, and a judgement.

Whoever asks is nobody yet.  ``GET`` changes nothing.  An answer of a browser is taken from
this page's own origin alone; the challenge in it is of one attempt, and the attempt of one key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import define
from twisted.internet.defer import CancelledError
from twisted.logger import Logger
from twisted.web.template import Tag, flattenString, tags

from svc.authority.accounts.browser import PATH, BrowserStep, passkey_challenge
from svc.authority.accounts.passkeys import PasskeyAssertion, PasskeyRegistration, Passkeys
from svc.authority.accounts.security_keys import KeyAnswer
from svc.authority.page.html import STYLE, text
from svc.authority.page.pages import Answer, IncomingRequest
from svc.authority.sign_in_page.script import SCRIPT
from svc.authority.signin.attempts import Attempt
from svc.authority.signin.strict_json import decode_base64url, encode_base64url, read_object
from svc.errors import Denied, Fault, Malformed, SvcError

MAX_BODY = 24_576
"""Bytes of what a browser brings, which is base64 in JSON."""

_TIMEOUT_MS = 120_000
_SCRIPT_PATH, _STYLE_PATH = "/passkey.js", "/style.css"
_STATUS = {
    Fault.INVALID: 400,
    Fault.DENIED: 403,
    Fault.NOT_FOUND: 404,
    Fault.EXHAUSTED: 429,
    Fault.UNAVAILABLE: 503,
    Fault.PRECONDITION: 503,
    Fault.DEADLINE: 503,
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "form-action 'none'",
        "base-uri 'none'",
    )
)
_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
_REGISTRATION = ("client_data", "attestation")
_ASSERTION = ("id", "user_handle", "client_data", "authenticator_data", "signature")

_log = Logger(namespace="svc_authority")


@define
class SignInPages:
    """Answers browsers."""

    cluster: str
    passkeys: Passkeys

    async def answer(self, ask: IncomingRequest, host: str) -> Answer:
        """The answer to a request; never raises.

        Args:
            host: The public name, with its port unless that is 443.
        """
        try:
            if list(ask.hosts) != [host.encode("ascii")]:
                raise _nothing(" under this name")
            return await self._answered(ask)
        except SvcError as refusal:
            return await self._refused(ask, _STATUS.get(refusal.fault, 500), refusal.text)
        except CancelledError:
            raise  # by who waits for it no longer
        except Exception:
            _log.failure("a sign-in page could not be made")
            return await self._refused(ask, 500, "the page could not be made")

    async def _answered(self, ask: IncomingRequest) -> Answer:
        reads = ask.method in ("GET", "HEAD")
        if ask.path == _SCRIPT_PATH and reads:
            return _answer(200, SCRIPT.encode("ascii"), "text/javascript; charset=utf-8")
        if ask.path == _STYLE_PATH and reads:
            return _answer(200, STYLE.encode("ascii"), "text/css; charset=utf-8")
        if not ask.path.startswith(PATH):
            raise _nothing("; run `svc login --passkey`")
        attempt_id = ask.path.removeprefix(PATH)
        if reads:
            return await self._shown(*self.passkeys.found(attempt_id))
        if ask.method != "POST":
            return await self._refused(ask, 405, "only GET, HEAD and POST are answered here")
        self._require_own_origin(ask)
        location = await self.passkeys.answered(attempt_id, _brought(ask.body))
        return _json(200, {"location": location})

    def _require_own_origin(self, ask: IncomingRequest) -> None:
        own = self.passkeys.configured.origin.encode("ascii")
        is_own = list(ask.origins) == [own] and list(ask.sites) in ([], [b"same-origin"])
        types = [one.partition(b";")[0].strip().lower() for one in ask.types]
        if not is_own or types != [b"application/json"]:
            raise Denied("another site has made this request", reason="cross_site")

    async def _shown(self, attempt: Attempt, step: BrowserStep) -> Answer:
        owner = step.owner
        doing = "Sign in to" if owner is None else "Make a passkey for"
        button = "Use a passkey" if owner is None else "Make the passkey"
        what: list[Any] = [tags.strong(text(self.cluster))]
        if owner is not None:
            what = [tags.strong(text(owner.name)), " in ", *what]
        main = tags.div(
            tags.p(f"{doing} ", *what, "."),
            tags.p(
                "Do so only if you have just run ",
                tags.code("svc login"),
                " on this machine yourself; otherwise close this page.",
            ),
            tags.p(tags.button(button, id="go", disabled="disabled")),
            tags.p(id="said", role="status"),
            id="passkey",
            **{"data-asked": self._asked(attempt, step)},
        )
        needs = tags.noscript(tags.p("A passkey needs JavaScript, which is off in this browser."))
        script = tags.script(src=_SCRIPT_PATH)
        return _answer(200, await _document(main, needs, script), "text/html; charset=utf-8")

    def _asked(self, attempt: Attempt, step: BrowserStep) -> str:
        """What the script asks the browser for."""
        site, owner = self.passkeys.configured, step.owner
        asked: dict[str, Any] = {
            "challenge": encode_base64url(passkey_challenge(attempt)),
            "rp_id": site.rp_id,
            "cluster": self.cluster,
            "algorithms": list(site.algorithms),
            "timeout": _TIMEOUT_MS,
            "owner": None,
        }
        if owner is not None:
            asked["owner"] = {
                "name": owner.name,
                "handle": encode_base64url(owner.handle),
                "has": [encode_base64url(one) for one in owner.has],
            }
        return json.dumps(asked, separators=(",", ":"))

    async def _refused(self, ask: IncomingRequest, status: int, sentence: str) -> Answer:
        told = f"{sentence[:1].upper()}{sentence[1:]}."
        if ask.method == "POST":
            return _json(status, {"refused": told})
        body = await _document(tags.div(tags.p(told)))
        more = (("Allow", "GET, HEAD, POST"),) if status == 405 else ()
        return _answer(status, body, "text/html; charset=utf-8", more)


def _nothing(where: str) -> SvcError:
    return SvcError(f"there is nothing here{where}", reason="no_page", fault=Fault.NOT_FOUND)


def _brought(body: bytes) -> PasskeyAssertion | PasskeyRegistration:
    """What a browser brings.

    Raises:
        Malformed: it is not of that form.
    """
    try:
        given = read_object(body)
    except ValueError:
        given = {}
    if set(given) not in (set(_REGISTRATION), set(_ASSERTION)):
        raise Malformed("what the browser brought cannot be read")
    if set(given) == set(_REGISTRATION):
        return PasskeyRegistration(*(_bytes(given, name) for name in _REGISTRATION))
    found = {name: _bytes(given, name) for name in _ASSERTION}
    answer = KeyAnswer(
        credential_id=found["id"],
        client_data=found["client_data"],
        authenticator_data=found["authenticator_data"],
        signature=found["signature"],
    )
    return PasskeyAssertion(found["user_handle"], answer)


def _bytes(given: Mapping[str, Any], name: str) -> bytes:
    value = given[name]
    try:
        return decode_base64url(value if isinstance(value, str) else "=")
    except ValueError:
        raise Malformed("what the browser brought cannot be read") from None


async def _document(*content: Tag) -> bytes:
    head = tags.head(
        tags.meta(charset="utf-8"),
        tags.title("svc"),
        tags.link(rel="stylesheet", href=_STYLE_PATH),
    )
    page: bytes = await flattenString(None, tags.html(head, tags.body(*content), lang="en"))
    return b"<!doctype html>\n" + page + b"\n"


def _json(status: int, told: Mapping[str, str]) -> Answer:
    return _answer(status, json.dumps(told).encode("ascii"), "application/json")


def _answer(status: int, body: bytes, type: str, more: tuple[tuple[str, str], ...] = ()) -> Answer:
    return Answer(status, body, (("Content-Type", type), *_HEADERS, *more))
