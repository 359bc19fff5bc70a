"""What a request is to kube-apiserver: its ``RequestInfo``, by which the server itself authorizes.

The server reads verb, resource, namespace and name from method, path and two parameters of the
query.  This reads them by the same rules, so that a policy and the cluster's own RBAC speak of the
same thing.  A query that versions of the server read differently is refused.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

from attrs import evolve, frozen

from svc.kinds.web.head import SPDY, WEBSOCKET, BadHead, HttpRequest, Protocols

PROTOCOLS: Protocols = frozenset({WEBSOCKET, SPDY})
"""Those that requests to an API server may ask to switch to."""

_PREFIXES = ("api", "apis")
_VERBS = {
    b"POST": "create",
    b"GET": "get",
    b"HEAD": "get",
    b"PUT": "update",
    b"PATCH": "patch",
    b"DELETE": "delete",
}
_VERBS_IN_PATH = ("proxy", "watch")
_OF_NAMESPACES = ("status", "finalize")
_FALSE = ("false", "0")
_BAD_ENCODING = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TERMS = re.compile(r"(?:[^,\\]|\\.|\\\Z)+", re.DOTALL)
_TERM = re.compile(r"(?>(.*?)(!=|==|=))((?:[^=,\\]|\\[\\,=])*)\Z", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")


@frozen(kw_only=True)
class RequestInfo:
    """One request, as the API server names it.

    Attributes:
        is_resource: Whether it is for a resource; if not, verb and path are all there is.
        verb: ``get``, ``list``, ``watch``, ...; the method in lower case where it is for none.
        group: Of the API; empty for the core's.
    """

    is_resource: bool
    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


def request_info(head: HttpRequest) -> RequestInfo:
    """What this request is.

    Raises:
        BadHead: the server would refuse it too, or servers would read it in two ways.
    """
    asked = _parameters(head)
    plain = RequestInfo(is_resource=False, verb=head.method.decode("ascii").lower(), path=head.path)
    parts = [part for part in head.path.strip("/").split("/") if part]
    if len(parts) < 3 or parts[0] not in _PREFIXES:
        return plain
    prefix, *parts = parts
    group = ""
    if prefix == "apis":
        if len(parts) < 3:
            return plain
        group, *parts = parts
    version, *parts = parts
    verb = _VERBS.get(head.method, "")
    if parts[0] in _VERBS_IN_PATH:
        if len(parts) < 2:
            raise BadHead("the path names a verb and no resource", reason="request_line")
        verb, *parts = parts
    info = RequestInfo(is_resource=True, verb=verb, path=head.path, group=group, version=version)
    return _unnamed(_placed(info, parts), asked)


def _placed(info: RequestInfo, parts: list[str]) -> RequestInfo:
    """With what the path names: ``[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]``."""
    namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 1 else ""
    if namespace and len(parts) > 2 and parts[2] not in _OF_NAMESPACES:
        parts = parts[2:]
    has_subresource = len(parts) > 2 and info.verb != "proxy"
    return evolve(
        info,
        namespace=namespace,
        resource=parts[0],
        name=parts[1] if len(parts) > 1 else "",
        subresource=parts[2] if has_subresource else "",
    )


def _unnamed(info: RequestInfo, asked: dict[str, str]) -> RequestInfo:
    """What a verb becomes where the path names no object."""
    if info.name:
        return info
    if info.verb == "delete":
        return evolve(info, verb="deletecollection")
    if info.verb != "get":
        return info
    is_watch = "watch" in asked and asked["watch"].lower() not in _FALSE
    name = _selected(asked.get("fieldSelector", ""))
    return evolve(info, verb="watch" if is_watch else "list", name=name)


def _parameters(head: HttpRequest) -> dict[str, str]:
    """Those of the query that are looked at; each of them once."""
    query = head.target.partition(b"?")[2].decode("ascii")
    if ";" in query or _BAD_ENCODING.search(query):
        raise BadHead("the query holds a semicolon, or a % that encodes nothing", reason="query")
    found: dict[str, str] = {}
    for pair in query.split("&"):
        name, _, value = map(unquote_plus, pair.partition("="))
        if name in ("watch", "fieldSelector"):
            if name in found:
                raise BadHead(f"{name} stands in the query several times", reason="query")
            found[name] = value
    return found


def _selected(selector: str) -> str:
    """The one object that a field selector leaves, if it does; empty for what is malformed.

    As ``k8s.io/apimachinery/pkg/fields`` reads it: a backslash takes the next character out of
    its role, the first operator of a term divides it, and terms are looked at in order of bytes.
    """
    terms = [_TERM.match(term) for term in sorted(_TERMS.findall(selector), key=str.encode)]
    if not all(terms):
        return ""
    for term in terms:
        if term is not None and term[1] == "metadata.name" and term[2] != "!=":
            name = _ESCAPED.sub(r"\1", term[3])
            is_segment = name not in (".", "..") and not {"/", "%"} & set(name)
            return name if is_segment and name.isprintable() else ""
    return ""
