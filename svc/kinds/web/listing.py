"""At the person's machine: the page that lists the web applications of the person."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from svc.interfaces.kinds import LISTING
from svc.kinds.web.answers import json_answer, page_answer, refused_form, without_body
from svc.kinds.web.head import HttpRequest

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Your web applications</title>
<h1>Your web applications</h1>
{applications}
</html>
"""
_LINK = '<li><a href="http://{host}/">{resource}</a></li>'
_NONE = "<p>You may see none now; see: <code>svc resources list</code></p>"


def listing(head: HttpRequest, names: Mapping[str, str]) -> bytes:
    """The answer to a request for it.

    Args:
        names: See :class:`svc.interfaces.kinds.ICheckedEndpoint`.
    """
    if head.method not in (b"GET", b"HEAD"):
        told = refused_form("method", "this page is only read")
        return json_answer("405 Method Not Allowed", told, more=("Allow: GET, HEAD",))
    if head.path != "/":
        told = refused_form("not_found", "nothing is here; the list is at /")
        answer = json_answer("404 Not Found", told)
    else:
        # Applications know by the referrer that the person comes from here; see `RequestCheck`.
        answer = page_answer("200 OK", _page(names), referrers="origin")
    return without_body(answer) if head.method == b"HEAD" else answer


def _page(names: Mapping[str, str]) -> str:
    found = sorted((resource, host) for host, resource in names.items() if resource != LISTING)
    links = [_LINK.format(host=escape(host), resource=escape(name)) for name, host in found]
    applications = "\n".join(("<ul>", *links, "</ul>")) if links else _NONE
    return _PAGE.format(applications=applications)
