"""At the person's machine: which requests are the person's own, and which a foreign page has made.

A browser sends what any page tells it to.  What it says of where a request comes from decides
(rules R7 and R32); programs that are no browsers say nothing of it and pass by their Host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from urllib.parse import urlsplit

from attrs import define, field
from zope.interface import implementer

from svc.errors import Denied, SvcError
from svc.interfaces.kinds import LISTING, ILocalCheck
from svc.kinds.web.answers import json_answer, page_answer, plain, refused_form
from svc.kinds.web.head import WEBSOCKETS, BadHead, HttpRequest, Protocols
from svc.kinds.web.listing import listing
from svc.kinds.web.refusal_page import NAVIGATES, refusal_page
from svc.kinds.web.split import RequestSplit
from svc.kinds.web.words import POLICIES, REQUEST
from svc.model.ids import is_random_id
from svc.model.policy.requested import COMMAND_OPTIONS, known_command, why_command
from svc.model.session.edits import SESSION_UID

_OF_BROWSERS = frozenset({b"sec-fetch-site", b"origin", b"referer"})
"""Fields that say which page has made a request; other programs write none of them."""

_OWN_SITES = frozenset({b"same-origin", b"none"})

DECISION = "decision_id"

_TOLD_APART = frozenset(
    {"reason", "message", "explain", COMMAND_OPTIONS, REQUEST, POLICIES, SESSION_UID}
)
"""Names that details of a refusal, which a Proxy may have written, do not take in its JSON form."""

_CONTINUE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Continue to {name}?</title>
<h1>Continue to {name}?</h1>
<p>Another site sent you here.</p>
<p><a href="{target}" rel="noreferrer">Continue</a></p>
</html>
"""


class CrossSite(Denied):
    """A request that another site has made.

    Attributes:
        target: Where a person who went there may go on to; empty: nowhere.
    """

    def __init__(self, text: str, target: bytes = b"") -> None:
        super().__init__(text, reason="cross_site")
        self.target = target


@implementer(ILocalCheck)
@define
class RequestCheck:
    """The checks of one connection.

    Attributes:
        names: See :class:`svc.interfaces.kinds.ICheckedEndpoint`; compared exactly.
        also: A check of the kind's own of each head; raises SvcError.
        protocols: Those that a request may ask to switch to.
        resource: What the first request is for; empty before it has come.
        answer: The list of applications, where that is what it is for.
    """

    names: Mapping[str, str] | None
    fixed: str
    also: Callable[[HttpRequest], object] = lambda head: None
    protocols: Protocols = WEBSOCKETS
    resource: str = field(default="", init=False)
    answer: bytes = field(default=b"", init=False)
    _requests: RequestSplit = field(init=False)
    _is_past: bool = field(default=False, init=False)
    _navigates: bool = field(default=False, init=False)

    @_requests.default
    def _split(self) -> RequestSplit:
        return RequestSplit(self.protocols)

    def heard(self, data: bytes) -> None:
        """See ILocalCheck."""
        if self._is_past:
            return
        try:
            for part in self._requests.split(data):
                if isinstance(part, HttpRequest):
                    self._judge(part)
                if self.answer:
                    return
        except BadHead:
            # The gate reads the same head, and answers it in its turn.
            self.resource = self.resource or self.fixed
            if not self.resource:
                raise
            self._is_past = True

    def refused(self, error: SvcError) -> bytes:
        """See ILocalCheck."""
        if isinstance(error, CrossSite) and error.target:
            target = escape(error.target.decode("ascii"))
            name = "your web applications" if self.fixed == LISTING else self.fixed
            return page_answer("403 Forbidden", _CONTINUE.format(name=name, target=target))
        more: dict[str, object] = {
            name: plain(value) for name, value in error.details.items() if name not in _TOLD_APART
        }
        if POLICIES in error.details:
            more[POLICIES] = plain(error.details[POLICIES]).split(",")
        command = known_command(error.details.get(REQUEST, ""))
        if command:
            more[REQUEST] = f"{command}{error.details.get(COMMAND_OPTIONS, '')}"
        decision = error.details.get(DECISION, "")
        if is_random_id(decision):
            more["explain"] = why_command(decision, error.details.get(COMMAND_OPTIONS, ""))
        if self._navigates and not isinstance(error, BadHead):
            title = "Not allowed" if error.fault is Denied.fault else "Not available now"
            told = {**more, "reason": error.reason, "message": error.text}
            return page_answer(_status(error), refusal_page(title, told))
        uid = plain(error.details.get(SESSION_UID, ""))
        form = refused_form(error.reason, plain(error.text), uid, **more)
        return json_answer(_status(error), form)

    def _judge(self, head: HttpRequest) -> None:
        asked = head.headers.one(b"host").decode("ascii").lower()
        resource = self.fixed if self.names is None else self.names.get(asked, "")
        if not resource or resource != (self.resource or self.fixed or resource):
            raise SvcError(
                "no resource is served under this name; `svc status` shows the names",
                reason="unknown_host",
            )
        self.fixed = self.fixed or resource
        if not self.resource:
            self._navigates = head.headers.one(b"sec-fetch-mode").lower() == NAVIGATES
        if self.names is not None:
            self._check_site(head, f"http://{asked}")
        self.also(head)
        if resource == LISTING and self.names is not None:
            self.answer = listing(head, self.names)
            return
        if head.upgrades:
            self._is_past = True
        self.resource = resource

    def _check_site(self, head: HttpRequest, own: str) -> None:
        if head.headers.has_none_of(_OF_BROWSERS):
            return
        sites = head.headers.all(b"sec-fetch-site")
        origins = head.headers.all(b"origin")
        if any(origin.decode("latin-1") != own for origin in origins):
            raise CrossSite("a page of another site has made this request")
        is_listed = self._comes_from_listing(head)
        if sites and any(site not in _OWN_SITES for site in sites):
            goes_on = _goes_on(head)
            if not (goes_on and is_listed):
                raise CrossSite("another site has made this request", goes_on)
        if sites or is_listed:
            return
        if any(_site(one) != own for one in head.headers.all(b"referer")):
            raise CrossSite("a page of another site has made this request")

    def _comes_from_listing(self, head: HttpRequest) -> bool:
        """Whether the person followed a link of our own page, which leads to a root.

        Browsers keep the page's address over redirects: of another path an application of the
        list may have thought, and sent the person there.
        """
        if head.method not in (b"GET", b"HEAD") or head.target != b"/":
            return False
        names = self.names or {}
        pages = {f"http://{name}/".encode() for name, one in names.items() if one == LISTING}
        return head.headers.one(b"referer") in pages


def _goes_on(head: HttpRequest) -> bytes:
    """Where a person who followed a link is asked whether to go on."""
    went = head.headers.one(b"sec-fetch-mode"), head.headers.one(b"sec-fetch-dest")
    is_navigation = went == (b"navigate", b"document") and head.method in (b"GET", b"HEAD")
    return head.target if is_navigation else b""


def _site(referer: bytes) -> str:
    try:
        parts = urlsplit(referer.decode("latin-1"))
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}"


def _status(error: SvcError) -> str:
    if isinstance(error, BadHead):
        return "400 Bad Request"
    if error.reason == "unknown_host":
        return "421 Misdirected Request"
    return "403 Forbidden" if error.fault is Denied.fault else "503 Service Unavailable"
