"""The server: what kubectl asks for, answered from the objects, by one role and one token."""

from __future__ import annotations

import json
import select
import socket
import sys
import time
import traceback
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.temporary import process_directory
from tests.system.kube_api.channels import (
    SpdyChannels,
    WebSocket,
    WebSocketChannels,
    proof_of,
)
from tests.system.kube_api.objects import KINDS, Object, Objects, merged, of_v1, pod, table
from tests.system.kube_api.pods import forward, run_in
from tests.system.kube_api.spdy import Streams

TOKEN = "connector.own.token"
FORBIDDEN = "services"
"""The resource that the cluster's own roles let nobody list."""

PODS = "/api/v1/namespaces/shop/pods"
_VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]
_REVIEWS = "/apis/authorization.k8s.io/v1"
_STREAMS = ("exec", "attach", "portforward")


class ApiServer(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Cluster

    def do_GET(self) -> None:
        """Answer as kube-apiserver does."""
        self.server.heard.append((self.command, self.path, list(self.headers.items())))
        parts = urlsplit(self.path)
        self.query = parse_qs(parts.query)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._fail(401, "Unauthorized", "Unauthorized")
        elif parts.path.rpartition("/")[2] in _STREAMS:
            self._stream(parts.path)
        elif parts.path == f"{_REVIEWS}/selfsubjectaccessreviews":
            self._say(201, self._review(body))
        elif f"/{FORBIDDEN}" in parts.path:
            user = self.headers["Impersonate-User"]
            text = f'{FORBIDDEN} is forbidden: User "{user}" cannot list resource "{FORBIDDEN}"'
            self._fail(403, "Forbidden", text)
        elif parts.path.endswith("/log"):
            self._log(parts.path)
        elif (known := self._discovered(parts.path)) is not None:
            self._say(200, known)
        else:
            self._object(parts.path, body)

    do_DELETE = do_POST = do_PUT = do_PATCH = do_GET

    def _first(self, name: str) -> str:
        return self.query.get(name, [""])[0]

    def _is_set(self, name: str) -> bool:
        """As kube-apiserver reads it: whatever stands there, but for two words."""
        return name in self.query and self._first(name).lower() not in ("false", "0")

    def _discovered(self, path: str) -> Object | None:
        resources = [
            {
                "name": name,
                "singularName": singular,
                "shortNames": [short],
                "namespaced": name != "namespaces",
                "kind": kind,
                "verbs": _VERBS,
            }
            for name, (kind, singular, short) in KINDS.items()
        ]
        version = {"groupVersion": "authorization.k8s.io/v1", "version": "v1"}
        group = {
            "name": "authorization.k8s.io",
            "versions": [version],
            "preferredVersion": version,
        }
        review = {
            "name": "selfsubjectaccessreviews",
            "singularName": "selfsubjectaccessreview",
            "namespaced": False,
            "kind": "SelfSubjectAccessReview",
            "verbs": ["create"],
        }
        return {
            "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
            "/api": of_v1("APIVersions", versions=["v1"], serverAddressByClientCIDRs=[]),
            "/apis": of_v1("APIGroupList", groups=[group]),
            "/api/v1": of_v1("APIResourceList", groupVersion="v1", resources=resources),
            _REVIEWS: of_v1("APIResourceList", resources=[review], **version),
            "/openapi/v3": {"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1"}}},
            "/openapi/v3/api/v1": _openapi(),
        }.get(path)

    def _object(self, path: str, body: bytes) -> None:
        """One object, or the collection of some."""
        parts = path.strip("/").split("/")
        is_namespace = parts[2:3] == ["namespaces"] and len(parts) < 5
        depth = 3 if is_namespace else 5
        collection, name = "/" + "/".join(parts[:depth]), "/".join(parts[depth:])
        if len(parts) < depth or parts[depth - 1] not in KINDS:
            self._fail(404, "NotFound", f"the server could not find {path}")
        elif name:
            self._named(collection, name, body)
        elif self.command == "POST":
            new = json.loads(body)
            self._say(
                201, new if self._first("dryRun") else self.server.objects.put(collection, new)
            )
        elif self._is_set("watch"):
            self._watch(collection)
        else:
            self._list(collection)

    def _named(self, collection: str, name: str, body: bytes) -> None:
        objects = self.server.objects
        found = objects.get(collection, name)
        if found is None:
            what = collection.rpartition("/")[2]
            self._fail(404, "NotFound", f'{what} "{name}" not found')
        elif self.command == "DELETE":
            objects.delete(collection, name)
            self._say(200, of_v1("Status", metadata={}, status="Success"))
        elif self.command in ("PATCH", "PUT"):
            asked = json.loads(body)
            new = merged(found, asked) if self.command == "PATCH" else asked
            self._say(200, new if self._first("dryRun") else objects.put(collection, new))
        elif "as=Table" in self.headers.get("Accept", ""):
            self._say(200, table([found], objects.version))
        else:
            self._say(200, found)

    def _list(self, collection: str) -> None:
        objects, kind = self.server.objects, KINDS[collection.rpartition("/")[2]][0]
        found, version = objects.listed(collection), objects.version
        selected = self._first("fieldSelector").removeprefix("metadata.name=")
        found = [one for one in found if selected in ("", one["metadata"]["name"])]
        if "as=Table" in self.headers.get("Accept", ""):
            self._say(200, table(found, version))
        else:
            metadata = {"resourceVersion": version}
            self._say(200, of_v1(f"{kind}List", metadata=metadata, items=found))

    def _watch(self, collection: str) -> None:
        is_table = "as=Table" in self.headers.get("Accept", "")
        since = int(self._first("resourceVersion") or self.server.objects.version)
        self._begin_chunks("application/json")
        with suppress(OSError):
            patience = self.server.patience
            watched = self.server.objects.watched(collection, since, patience, self._has_left)
            for sort, one in watched:
                shown = table([one], one["metadata"]["resourceVersion"]) if is_table else one
                self._chunk(json.dumps({"type": sort, "object": shown}).encode() + b"\n")
            self._chunk(b"")

    def _log(self, path: str) -> None:
        """The lines of a file of the pod, and those that are added to it while it is followed."""
        self._begin_chunks("text/plain")
        ends = time.monotonic() + self.server.patience
        with suppress(OSError), (self.server.pod / "log").open("rb") as lines:
            while True:
                if data := lines.read():
                    self._chunk(data)
                elif not self._is_set("follow") or time.monotonic() > ends or self._has_left(0.02):
                    break
            self._chunk(b"")

    def _has_left(self, seconds: float = 0) -> bool:
        """Whether the client has ended its side, at which a Go server stops what it asked for."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _review(self, body: bytes) -> Object:
        """Whether the roles would allow it; asked in JSON, or in protobuf as kubectl does."""
        if body.startswith(b"k8s\0"):
            allowed = b"\x2a%c%s" % (len(FORBIDDEN), FORBIDDEN.encode()) not in body
        else:
            about = json.loads(body)["spec"].get("resourceAttributes", {})
            allowed = about.get("resource") != FORBIDDEN
        status = {"allowed": allowed, "reason": "" if allowed else "by the roles of the cluster"}
        kind = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
        return {**kind, "metadata": {}, "spec": {}, "status": status}

    def _stream(self, path: str) -> None:
        """Exec, attach or port-forward, by WebSocket or SPDY; else as kube-apiserver refuses it."""
        way = path.rpartition("/")[2]
        protocol = self.headers.get("Upgrade", "").lower()
        if self.server.refuses_upgrades or protocol not in ("websocket", "spdy/3.1"):
            self._fail(400, "BadRequest", "Upgrade request required")
            return
        self.close_connection = True
        streams = self._websocket() if protocol == "websocket" else self._spdy()
        if way == "portforward":
            forward(
                Streams(streams.read_on, streams.write_on)
                if isinstance(streams, WebSocket)
                else streams
            )
            return
        tty = self._is_set("tty")
        if isinstance(streams, WebSocket):
            channels: Any = WebSocketChannels(streams)
        else:
            channels = SpdyChannels(streams)
            asked = {name for name in ("stdin", "stdout", "stderr") if self._is_set(name)}
            channels.opened(asked | {"error"} | ({"resize"} if tty else set()))
        command = self.query.get("command", ["cat"])
        run_in(
            self.server.pod,
            command,
            channels,
            tty=tty,
            listens=self._is_set("stdin"),
        )

    def _websocket(self) -> WebSocket:
        offered = [one.strip() for one in self.headers["Sec-WebSocket-Protocol"].split(",")]
        self._switch(
            "websocket",
            Sec_WebSocket_Accept=proof_of(self.headers["Sec-WebSocket-Key"]),
            Sec_WebSocket_Protocol=offered[0],
        )
        return WebSocket(self.rfile.read, self.wfile.write)

    def _spdy(self) -> Streams:
        offered = self.headers.get_all("X-Stream-Protocol-Version") or ["v4.channel.k8s.io"]
        offered = [one.strip() for all_ in offered for one in all_.split(",")]
        best = "v4.channel.k8s.io" if "v4.channel.k8s.io" in offered else offered[0]
        self._switch("SPDY/3.1", X_Stream_Protocol_Version=best)
        return Streams(self.rfile.read, self.wfile.write)

    def _switch(self, protocol: str, **fields: str) -> None:
        self.send_response(101)
        self.send_header("Upgrade", protocol)
        self.send_header("Connection", "Upgrade")
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _fail(self, code: int, reason: str, message: str) -> None:
        self._say(
            code,
            of_v1(
                "Status", metadata={}, status="Failure", reason=reason, message=message, code=code
            ),
        )

    def _say(self, code: int, told: Object) -> None:
        text = json.dumps(told).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _begin_chunks(self, media_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _openapi() -> Object:
    """As much of the API's description as says that the server validates fields and runs dry."""
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string"}}
        for name in ("dryRun", "fieldManager", "fieldValidation", "force")
    ]
    paths = {
        f"/api/v1/namespaces/{{namespace}}/{name}/{{name}}": {
            "patch": {
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": kind},
                "parameters": parameters,
            }
        }
        for name, (kind, _, _) in KINDS.items()
    }
    info = {"title": "small", "version": "v1"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


class Cluster(ThreadingHTTPServer):
    """The small API server.

    Attributes:
        heard: Method, path and header fields of the requests that reached it.
        pod: The directory that every pod is.
        patience: Seconds after which a watch in which nothing happens ends.
        refuses_upgrades: Exec and the like are answered 400, as where a backend is too old.
        faults: What broke here other than a connection, which its client saw as an orderly end.
    """

    daemon_threads = True

    request_queue_size = 1024

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), ApiServer)
        self.heard: list[tuple[str, str, list[tuple[str, str]]]] = []
        self.objects = Objects()
        self.pod = process_directory()
        self.patience = 60.0
        self.refuses_upgrades = False
        self.faults: list[str] = []
        (self.pod / "log").write_text("first line\n", "ascii")
        self.objects.put("/api/v1/namespaces", of_v1("Namespace", metadata={"name": "shop"}))
        for name in ("front", "back"):
            self.objects.put(PODS, pod(name))
        Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what broke; a client that leaves amid something is none of it."""
        if not isinstance(sys.exception(), ConnectionError):
            self.faults.append(traceback.format_exc())
