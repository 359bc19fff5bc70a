"""A person's browser: its cookie, and the tokens of the forms that were written for it.

Who somebody is, the gate says with each request.  The cookie says only which browser a form was
written for, so that no other page can send one: neither by guessing nor by a form that the
person filled in elsewhere.  Nothing is given for the cookie alone.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256

from attrs import define, field

from svc.authority.page.visitor import PageVisitor
from svc.errors import Denied
from svc.model.ids import Entropy

COOKIE = "__Host-svc-page"
"""Browsers take a cookie of this name only with ``Secure`` and ``Path=/``, for one host alone."""

IDLE_SECS = 900.0
LONGEST_SECS = 8 * 3600.0
MOST_OF_PERSON = 8
MOST = 4096

_BYTES = 32
_DOMAIN = b"svc-page-form-v1\0"


@define(eq=False)
class Browser:
    """One browser of one person.

    Attributes:
        cookie: The value of the cookie, where it was made just now; empty: the browser has it.
    """

    person_id: str
    certificate_sha256: bytes
    key: bytes = field(repr=False)
    made_at: float
    used_at: float
    cookie: str = field(default="", repr=False)

    def form_token(self, action: str, subject: str) -> str:
        """What a form of this browser for *action* on *subject* has to bring."""
        text = _DOMAIN + f"{action}\0{subject}".encode()
        return hmac.digest(self.key, text, "sha256").hex()

    def require_form(self, action: str, subject: str, token: str) -> None:
        """Return if a form was written for this browser, action and subject.

        Raises:
            Denied: it was not.
        """
        good = self.form_token(action, subject).encode()
        if not hmac.compare_digest(good, token.encode()):
            raise out_of_date()

    @property
    def set_cookie(self) -> str:
        """The header field that gives the browser its cookie."""
        return f"{COOKIE}={self.cookie}; Path=/; Secure; HttpOnly; SameSite=Strict"


@define
class Browsers:
    """The browsers that were here lately; in memory, and forgotten at a stop.

    Attributes:
        seconds: A clock that nobody sets.
        now: Seconds since the epoch.
    """

    seconds: Callable[[], float]
    entropy: Entropy
    _known: dict[bytes, Browser] = field(factory=dict, init=False)

    def find(self, visitor: PageVisitor, cookies: Sequence[str]) -> Browser | None:
        """The browser that brings these cookies, where it is of this person's current sign-in."""
        self._forget_idle()
        for cookie in cookies:
            found = self._known.get(_name(cookie))
            if found is not None and _is_of(found, visitor):
                found.used_at, found.cookie = self.seconds(), ""
                return found
        return None

    def begin(self, visitor: PageVisitor) -> Browser:
        """A browser that has no cookie yet, or one of an earlier sign-in."""
        self._forget_idle()
        of_person = [one for one in self._known.items() if one[1].person_id == visitor.person.id]
        if len(of_person) >= MOST_OF_PERSON:
            self._forget_oldest(of_person)
        elif len(self._known) >= MOST:
            self._forget_oldest(list(self._known.items()))
        now = self.seconds()
        cookie = urlsafe_b64encode(self.entropy(_BYTES)).rstrip(b"=").decode("ascii")
        made = Browser(
            person_id=visitor.person.id,
            certificate_sha256=visitor.certificate_sha256,
            key=self.entropy(_BYTES),
            made_at=now,
            used_at=now,
            cookie=cookie,
        )
        self._known[_name(cookie)] = made
        return made

    def _forget_idle(self) -> None:
        now = self.seconds()
        for name, one in list(self._known.items()):
            if now >= one.used_at + IDLE_SECS or now >= one.made_at + LONGEST_SECS:
                del self._known[name]

    def _forget_oldest(self, among: list[tuple[bytes, Browser]]) -> None:
        name, _ = min(among, key=lambda one: one[1].used_at)
        del self._known[name]


def out_of_date() -> Denied:
    """The refusal of a form that was not written for this browser, or too long ago."""
    return Denied(
        "this form is out of date, or another site has made it; nothing was changed.  Open the"
        " page again and repeat what you wanted",
        reason="form_out_of_date",
    )


def _is_of(browser: Browser, visitor: PageVisitor) -> bool:
    """A new sign-in, or a renewal, has another certificate."""
    own = (visitor.person.id, visitor.certificate_sha256)
    return (browser.person_id, browser.certificate_sha256) == own


def _name(cookie: str) -> bytes:
    """Cookies are looked up by their digest: how long that takes says nothing of them."""
    return sha256(cookie.encode("utf-8", "surrogatepass")).digest()
