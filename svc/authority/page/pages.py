"""What is answered to a request for a page; the order of the checks is that of rule R36."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import parse_qsl

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from svc.authority.page.browser import COOKIE, Browser, Browsers, out_of_date
from svc.authority.page.html import STYLE, Content, Link, document, paragraph
from svc.authority.page.visitor import PageVisitor, Visitors
from svc.errors import Denied, Fault, Malformed, SvcError, TooMany
from svc.model.clocks import since
from svc.model.policy.requests import FACTOR_AGE

MAX_FORM = 4096
"""Bytes of a form."""

MOST_OF_PERSON = 6
"""Pages of one person that are made at once: as many as a browser asks for."""

_MOST_FIELDS = 8
_FORM = b"application/x-www-form-urlencoded"
_STYLE_PATH = "/style.css"
_LABEL = 46
"""Characters of a resource's id that a browser's name for it has; see `svc.client.resident`."""

_STATUS = {
    Fault.INVALID: 400,
    Fault.UNAUTHENTICATED: 401,
    Fault.DENIED: 403,
    Fault.NOT_FOUND: 404,
    Fault.EXHAUSTED: 429,
    Fault.UNAVAILABLE: 503,
    Fault.PRECONDITION: 503,
    Fault.DEADLINE: 503,
}
_TITLES = {
    400: "This request cannot be read",
    401: "Nobody is signed in here",
    403: "Not allowed",
    404: "There is no such page",
    405: "Not in this way",
    421: "There is no such page here",
    429: "Too many requests",
    503: "Not now",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "form-action 'self'",
        "base-uri 'none'",
    )
)
_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # Not `no-referrer`: browsers would send forms with the origin `null`.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)

_log = Logger(namespace="svc_authority")


@frozen(kw_only=True)
class IncomingRequest:
    """A request as it came; of each header field every value, in order.

    Attributes:
        body: Bounded by who listens.
    """

    method: str
    path: str
    query: str = ""
    hosts: Sequence[bytes] = ()
    tokens: Sequence[bytes] = ()
    cookies: Sequence[bytes] = ()
    origins: Sequence[bytes] = ()
    sites: Sequence[bytes] = ()
    types: Sequence[bytes] = ()
    body: bytes = field(default=b"", repr=False)


@frozen
class Answer:
    """What is answered."""

    status: int
    body: bytes
    headers: Sequence[tuple[str, str]] = ()


@frozen
class Visit:
    """A request of a person, with what is needed to answer it.

    Attributes:
        browser: For which forms are written.
        given: What the query, or the form, gives.
    """

    visitor: PageVisitor
    browser: Browser
    given: Mapping[str, str]


class PersonPage(Protocol):
    """A page that is read."""

    path: str
    title: str

    async def content(self, visit: Visit) -> Content:
        """What stands on it; raises SvcError."""


class Action(Protocol):
    """A change that a form asks for.

    Attributes:
        name: What the token of its form is bound to, and
        subject: the field whose value it is bound to as well.
    """

    path: str
    name: str
    subject: str

    async def act(self, visit: Visit) -> str:
        """Make it; the path of the page that shows what came of it.  Raises SvcError."""


@define
class Pages:
    """Answers requests.

    Attributes:
        resource: The id of the resource that the page is.
    """

    resource: str
    visitors: Visitors
    browsers: Browsers
    pages: Sequence[PersonPage]
    actions: Sequence[Action]
    _busy: Counter[str] = field(factory=Counter, init=False)

    async def answer(self, ask: IncomingRequest, host: str) -> Answer:
        """The answer to a request; never raises.

        Args:
            host: Where the page is served: the one ``Host`` that is answered.
        """
        try:
            if list(ask.hosts) != [host.encode("ascii")]:
                return await self._refused(421, f"this page is served as {host} to its Connector")
            return await self._answer(ask)
        except SvcError as error:
            return await self._refused(_STATUS.get(error.fault, 500), error.text, error.reason)
        except CancelledError:
            raise  # by who waits for it no longer
        except Exception:
            _log.failure("a page could not be made", path=ask.path)
            return await self._refused(500, "the page could not be made", "internal")

    async def _answer(self, ask: IncomingRequest) -> Answer:
        visitor = await self.visitors.visitor(ask.tokens)
        who = visitor.person.id
        if self._busy[who] >= MOST_OF_PERSON:
            raise TooMany("too many pages at once; wait for them", retry_after=2.0)
        self._busy[who] += 1
        try:
            return await self._routed(ask, visitor)
        finally:
            self._busy[who] -= 1
            if not self._busy[who]:
                del self._busy[who]

    async def _routed(self, ask: IncomingRequest, visitor: PageVisitor) -> Answer:
        page = next((one for one in self.pages if one.path == ask.path), None)
        action = next((one for one in self.actions if one.path == ask.path), None)
        if action is not None and ask.method == "POST":
            return await self._acted(ask, action, visitor)
        if ask.path == _STYLE_PATH and ask.method in ("GET", "HEAD"):
            return _style()
        if page is not None and ask.method in ("GET", "HEAD"):
            return await self._shown(ask, page, visitor)
        if page is None and action is None:
            return await self._refused(404, "the navigation leads to every page there is")
        allowed = "GET, HEAD" if page is not None else "POST"
        return await self._refused(405, f"only {allowed} is answered here", allow=allowed)

    async def _shown(self, ask: IncomingRequest, page: PersonPage, visitor: PageVisitor) -> Answer:
        browser = self.browsers.find(visitor, _cookies(ask)) or self.browsers.begin(visitor)
        content = await page.content(Visit(visitor, browser, _given(ask.query)))
        who = visitor.person.known_name or visitor.person.id
        factor = _factor(visitor.factor_at, self.visitors.now())
        body = await document(page.title, self._links(), content, (who, factor))
        cookie = (("Set-Cookie", browser.set_cookie),) if browser.cookie else ()
        return Answer(200, body, (*_of_page(), *cookie))

    async def _acted(self, ask: IncomingRequest, action: Action, visitor: PageVisitor) -> Answer:
        self._require_own_origin(ask)
        if [one.partition(b";")[0].strip().lower() for one in ask.types] != [_FORM]:
            raise Malformed("only a form of this page is taken")
        browser = self.browsers.find(visitor, _cookies(ask))
        given = _given(ask.body.decode("latin-1"))
        if browser is None:
            raise out_of_date()
        browser.require_form(action.name, given.get(action.subject, ""), given.get("token", ""))
        target = await action.act(Visit(visitor, browser, given))
        return Answer(303, b"", (*_of_page(), ("Location", target)))

    def _require_own_origin(self, ask: IncomingRequest) -> None:
        """A form comes from this page.

        The person's own machine compares the origin with the name there, which no other place
        knows; here it must at least be a name that this resource has on somebody's machine.
        """
        own = re.escape(self.resource[:_LABEL].encode())
        name = rb"http://(?:%s-[a-z2-7]{16}\.localhost|127(?:\.[0-9]{1,3}){3}):[0-9]{1,5}\Z" % own
        is_own = len(ask.origins) == 1 and re.match(name, ask.origins[0])
        if not is_own or any(site != b"same-origin" for site in ask.sites):
            raise Denied("another site has made this request", reason="cross_site")

    def _links(self) -> list[Link]:
        return [Link(one.path, one.title) for one in self.pages]

    async def _refused(
        self, status: int, sentence: str, reason: str = "", allow: str = ""
    ) -> Answer:
        title = _TITLES.get(status, "The page could not be made")
        tail = [f"Reason: {reason}."] if reason else []
        if status == 401:
            tail = [f"Open it with: svc open {self.resource}"]
        links = [] if status in (401, 421) else self._links()
        lines = [f"{sentence[:1].upper()}{sentence[1:]}.", *tail]
        body = await document(title, links, [paragraph(one) for one in lines])
        more = (("Allow", allow),) if allow else ()
        scheme = (("WWW-Authenticate", "svc-identity"),) if status == 401 else ()
        return Answer(status, body, (*_of_page(), *more, *scheme))


def _factor(at: float | None, now: float) -> str:
    """What the policy knows of the person's second factor."""
    if at is None:
        return f"The policy knows of no second factor of yours (no {FACTOR_AGE})."
    age = max(0, int(now - at))
    return f"You presented a second factor {since(age)} ago ({FACTOR_AGE} is {age})."


def _of_page() -> tuple[tuple[str, str], ...]:
    return (
        ("Content-Type", "text/html; charset=utf-8"),
        ("Cache-Control", "no-store"),
        *_HEADERS,
    )


def _style() -> Answer:
    headers = (
        ("Content-Type", "text/css; charset=utf-8"),
        ("Cache-Control", "private, max-age=3600"),
    )
    return Answer(200, STYLE.encode("ascii"), (*headers, *_HEADERS))


def _cookies(ask: IncomingRequest) -> list[str]:
    """The values of our cookie; a second one was put there by somebody else."""
    pairs = [one.strip().partition(b"=") for line in ask.cookies for one in line.split(b";") if one]
    return [value.decode("latin-1") for name, _, value in pairs if name == COOKIE.encode()][:2]


def _given(text: str) -> dict[str, str]:
    """Each name once.

    Raises:
        Malformed: it is not of that form.
    """
    try:
        pairs = parse_qsl(
            text,
            keep_blank_values=True,
            strict_parsing=bool(text),
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise Malformed("what the form or the address gives cannot be read") from None
    given = dict(pairs)
    if len(given) != len(pairs):
        raise Malformed("a field is given twice")
    return given
