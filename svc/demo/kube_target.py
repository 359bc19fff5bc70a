"""A very small API server of Kubernetes: one namespace, a pod and a secret, to be read.

It takes the demo's Connector at its token and nobody else, and knows a person by whom the
Connector names.  It has no roles: asked what a person may do, it allows whatever the policy let by.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.interfaces import ITransport
from twisted.protocols.basic import LineReceiver

from svc.demo.scene import NAMESPACE, POD

Object = dict[str, Any]

_MOST_HEADERS = 64
_MOST_BODY = 65_536
_WORDS = {
    200: "OK",
    201: "Created",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
}
_PODS, _SECRETS = (f"/api/v1/namespaces/{NAMESPACE}/{name}" for name in ("pods", "secrets"))
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_REVIEW: Object = {
    "kind": "SelfSubjectAccessReview",
    "apiVersion": "authorization.k8s.io/v1",
    "metadata": {},
    "spec": {},
    "status": {"allowed": True, "reason": "the demo's cluster has no roles"},
}
_COLUMN = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}


def _named(kind: str, name: str, **more: Any) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"kind": kind, "apiVersion": "v1", "metadata": metadata, **more}


def _resource(name: str, kind: str) -> Object:
    return {
        "name": name,
        "singularName": kind.lower(),
        "namespaced": True,
        "kind": kind,
        "verbs": ["get", "list"],
    }


def _list(kind: str, *items: Object) -> Object:
    metadata = {"resourceVersion": "1"}
    return {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata, "items": items}


_KNOWN: dict[str, Object] = {
    "/version": {"major": "1", "minor": "0", "gitVersion": "v1.0.0-demo"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [_resource("pods", "Pod"), _resource("secrets", "Secret")],
    },
    _PODS: _list("Pod", _named("Pod", POD, status={"phase": "Running"})),
    _SECRETS: _list("Secret", _named("Secret", "password", data={"password": "c2VjcmV0"})),
}


def _table(found: Object) -> Object:
    """What kubectl prints as it is."""
    rows = [
        {
            "cells": [one["metadata"]["name"]],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": one["metadata"],
            },
        }
        for one in found["items"]
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": found["metadata"],
        "columnDefinitions": [_COLUMN],
        "rows": rows,
    }


def _failure(code: int, reason: str, message: str) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def _fields(lines: list[str]) -> dict[str, str]:
    """The fields of a request's head, in lower case."""
    return dict(one.lower().split(": ", 1) for one in lines[1:] if ": " in one)


class KubeApi(LineReceiver):
    """One connection of the Connector's; it reads requests and changes nothing."""

    transport: ITransport
    MAX_LENGTH = 8192

    def __init__(self, token: str) -> None:
        self._token = token
        self._lines: list[str] = []
        self._unread = 0

    def lineReceived(self, line: bytes) -> None:
        """The empty line ends the request."""
        if line:
            self._lines.append(line.decode("latin-1"))
            if len(self._lines) > _MOST_HEADERS:
                self.transport.loseConnection()
            return
        length = _fields(self._lines).get("content-length", "0")
        self._unread = int(length) if length.isdecimal() else 0
        if self._unread > _MOST_BODY:
            self.transport.loseConnection()
        elif self._unread:
            self.setRawMode()  # type: ignore[no-untyped-call]
        else:
            self._respond()

    def rawDataReceived(self, data: bytes) -> None:
        """A body is read, as a connection closed on unread bytes loses the answer; not used."""
        self._unread -= len(data)
        if self._unread <= 0:
            self._respond()

    def _respond(self) -> None:
        lines, self._lines = self._lines, []
        method, _, rest = lines[0].partition(" ") if lines else ("", "", "")
        path = rest.partition(" ")[0].partition("?")[0]
        code, told = self._answer(method, path, _fields(lines))
        body = json.dumps(told).encode("ascii")
        is_last = method != "GET"  # more of a body may follow
        head = (
            f"HTTP/1.1 {code} {_WORDS[code]}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n" + ("Connection: close\r\n" if is_last else "")
        )
        self.transport.write(head.encode("ascii") + b"\r\n" + body)
        if is_last:
            self.transport.loseConnection()

    def _answer(self, method: str, path: str, fields: dict[str, str]) -> tuple[int, Object]:
        is_connector = fields.get("authorization") == f"bearer {self._token}"
        if not is_connector or not fields.get("impersonate-user", "").startswith("svc:"):
            return 401, _failure(401, "Unauthorized", "only the demo's Connector is served")
        if (method, path) == ("POST", _REVIEWS):
            return 201, _REVIEW
        if method != "GET":
            return 405, _failure(405, "MethodNotAllowed", "nothing is changed in the demo")
        found = _KNOWN.get(path)
        if found is None:
            return 404, _failure(404, "NotFound", "the demo's cluster has no such thing")
        is_table = "items" in found and "as=table" in fields.get("accept", "")
        return 200, _table(found) if is_table else found

    def lineLengthExceeded(self, line: bytes) -> None:
        """No request that we answer is that long."""
        self.transport.loseConnection()
