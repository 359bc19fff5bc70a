"""``kubectl auth can-i``: what the policy says to it, before the cluster is asked.

A person may do what both allow.  Where the policy would deny the request that is asked about, the
gate says so; otherwise the cluster answers.  A review comes in JSON, or in the API's protobuf
(``k8s.io/api/authorization/v1/generated.proto``), of which only the fields that matter are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial

from svc.kinds.kube.actions import action_of
from svc.kinds.kube.request import RequestInfo, request_info
from svc.kinds.kube.terms import facts_of
from svc.kinds.web.head import BadHead, HttpRequest
from svc.kinds.web.reading import Allows, Question
from svc.kinds.web.words import REASON

REVIEW = "selfsubjectaccessreviews"
GROUP = "authorization.k8s.io"

BY_POLICY, BY_WILDCARD = "policy", "wildcard"
"""Why the answer is no."""

VERSION = "version"
"""Of the API that was asked, among the values of the answer."""

_PROTOBUF = b"k8s\0"
_ANY = "*"
_ABOUT = {
    1: "namespace",
    2: "verb",
    3: "group",
    4: "version",
    5: "resource",
    6: "subresource",
    7: "name",
}
_ABOUT_OTHERS = {1: "path", 2: "verb"}
_RAW, _SPEC, _RESOURCE, _OTHER = 2, 2, 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


def access_question(head: HttpRequest) -> Question | None:
    """What reads this request, if it asks what the person may do."""
    if head.method != b"POST" or REVIEW not in head.path:
        return None
    info = request_info(head)
    is_review = (info.group, info.resource) == (GROUP, REVIEW) and info.verb == "create"
    is_review = is_review and not info.name
    return partial(_answer, info.version) if is_review else None


def _answer(version: str, body: bytes, allows: Allows) -> Mapping[str, str] | None:
    try:
        about = _of_protobuf(body) if body.startswith(_PROTOBUF) else _of_json(body)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        about = {}
    if not about:
        raise BadHead("what this asks about cannot be read", reason="question")
    if _ANY in about.values():
        return {REASON: BY_WILDCARD, VERSION: version}
    info = RequestInfo(
        is_resource="path" not in about,
        verb=about.get("verb", ""),
        path=about.get("path", ""),
        group=about.get("group", ""),
        version=about.get("version", ""),
        resource=about.get("resource", ""),
        subresource=about.get("subresource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
    )
    facts = {
        name: value for name, value in facts_of(info).items() if name != "api_version" or value
    }
    is_allowed = allows(action_of(info), facts)
    return None if is_allowed else {REASON: BY_POLICY, VERSION: version}


def _of_json(body: bytes) -> dict[str, str]:
    spec = json.loads(body)["spec"]
    about = spec.get("resourceAttributes")
    names = _ABOUT if about is not None else _ABOUT_OTHERS
    about = about if about is not None else spec["nonResourceAttributes"]
    return {name: _text(about[name]) for name in names.values() if about.get(name)}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("an attribute of a review is no text")
    return value


def _of_protobuf(body: bytes) -> dict[str, str]:
    """``Unknown.raw`` holds the review, whose ``spec`` has one kind of attributes or the other."""
    review = _field(body[len(_PROTOBUF) :], _RAW)
    spec = _field(review, _SPEC)
    about = dict(_fields(spec))
    names = _ABOUT if _RESOURCE in about else _ABOUT_OTHERS
    found = about.get(_RESOURCE, about.get(_OTHER, b""))
    return {
        names[number]: value.decode("utf-8")
        for number, value in _fields(found)
        if number in names and value
    }


def _field(message: bytes, number: int) -> bytes:
    """The last of this number; empty where there is none."""
    return dict(_fields(message)).get(number, b"")


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields that hold bytes, in their order; raises ValueError where it is no message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        sort = key & 7
        if sort == _VARINT:
            _, at = _varint(message, at)
        elif sort in (_FIXED32, _FIXED64):
            at += 4 if sort == _FIXED32 else 8
        elif sort == _BYTES:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise ValueError("a field is longer than its message")
            yield key >> 3, message[at : at + size]
            at += size
        else:
            raise ValueError("a field of an unknown sort")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * n
        if not byte & 0x80:
            return value, at + n + 1
    raise ValueError("a number does not end")
