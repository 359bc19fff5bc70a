"""A gateway with one web application, for the modules that use it: by curl, and by a browser."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

from attrs import define, field

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.settings import POLICY, GatewayTarget
from tests.system.targets import blocks

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KINDS = ["ssh", "tcp", "web"]
DASHBOARD = """
@id("only-read")
forbid (principal, action == Action::"webAccess", resource)
unless {
  context has method && context has path &&
  (["GET", "HEAD"].contains(context.method) || ["/upload", "/login"].contains(context.path))
};

@id("no-admin")
forbid (principal, action == Action::"webAccess", resource)
when { context has path && context.path like "/admin*" };
"""
NO_SOCKETS = """
@id("no-sockets")
forbid (principal, action == Action::"webAccess", resource)
when { context has upgrade && context.upgrade };
"""
LOGIN = """<!doctype html><title>Log in</title>
<form method="post" action="/login"><input name="user"><button>Log in</button></form>
"""
HOME = """<!doctype html><title>Home</title><p id="who">{who}</p><a id="file" href="{file}">file</a>
<script>
const socket = new WebSocket("ws://" + location.host + "/ws");
window.ended = new Promise(done => {{ socket.onclose = end => done([end.code, end.reason]); }});
window.echoed = new Promise(done => {{ socket.onmessage = told => done(told.data); }});
socket.onopen = () => socket.send("hi");
window.events = new Promise(done => {{
  const source = new EventSource("/events"), told = [];
  source.onmessage = one => {{
    told.push(one.data);
    if (told.length == 3) {{ source.close(); done(told); }}
  }};
}});
</script>
"""


class Application(BaseHTTPRequestHandler):
    """Answers what it was asked, and remembers it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Site

    def do_GET(self) -> None:
        """Say what came, or send so many bytes, or return the frames of a WebSocket."""
        self.server.heard.append(f"{self.command} {self.path}")
        if self.headers.get("Upgrade") == "websocket":
            self._echo()
            return
        special = {
            "/moved": self._redirect,
            "/login": self._log_in,
            "/home": self._greet,
            "/events": self._tell,
        }.get(self.path)
        if special is not None:
            special()
            return
        if self.path.startswith("/bytes/"):
            self._send_blocks(int(self.path.rpartition("/")[2]))
            return
        left, digest = int(self.headers.get("Content-Length", 0)), hashlib.sha256()
        size = left
        while left:
            piece = self.rfile.read(min(left, 1 << 20))
            digest.update(piece)
            left -= len(piece)
        told = {
            "asked": f"{self.command} {self.path}",
            "headers": [[name, value] for name, value in self.headers.items()],
            "size": size,
            "sha256": digest.hexdigest(),
        }
        text = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def _redirect(self) -> None:
        host = self.headers["Host"]
        self.send_response(302)
        self.send_header("Location", f"http://{host}/there?a=1")
        self.send_header("Set-Cookie", f"own=1; Domain={host.partition(':')[0]}; Path=/")
        self.send_header("Set-Cookie", "wide=1; Domain=example; Path=/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _log_in(self) -> None:
        """A form; and who sends it is known by a cookie from then on."""
        if self.command != "POST":
            self._page(LOGIN)
            return
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(303)
        self.send_header("Location", "/home")
        self.send_header("Set-Cookie", f"user={form['user'][0]}; Path=/; HttpOnly; SameSite=Lax")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _greet(self) -> None:
        """Only who has logged in; the page opens a WebSocket, and follows events."""
        who = SimpleCookie(self.headers.get("Cookie", "")).get("user")
        size = self.server.file_size
        self._page(LOGIN if who is None else HOME.format(who=who.value, file=f"/bytes/{size}"))

    def _tell(self) -> None:
        """Three events; then the stream stays open until it is left."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for number in range(3):
            self.wfile.write(b"data: event %d\n\n" % number)
        self.rfile.read(1)

    def _page(self, html: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(html.encode())))
        self.end_headers()
        self.wfile.write(html.encode())

    def _send_blocks(self, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size))
        self.end_headers()
        for block in blocks(size):
            self.wfile.write(block)
            self.server.sent += len(block)

    def _echo(self) -> None:
        proof = hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + GUID).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", b64encode(proof).decode())
        self.end_headers()
        self.close_connection = True
        while head := self.rfile.read(2):
            mask = self.rfile.read(4)
            masked = self.rfile.read(head[1] & 0x7F)
            text = bytes(each ^ mask[at % 4] for at, each in enumerate(masked))
            self.wfile.write(bytes((head[0], len(text))) + text)

    do_HEAD = do_POST = do_PUT = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Site(ThreadingHTTPServer):
    """A small application.

    Attributes:
        heard: Requests that reached it.
        file_size: Of the file that its page offers.
        sent: Bytes of large answers that somebody has taken.
    """

    daemon_threads = True

    request_queue_size = 1024

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Application)
        self.heard: list[str] = []
        self.file_size = 1 << 20
        self.sent = 0
        Thread(target=self.serve_forever, daemon=True).start()


@define(eq=False)
class Web:
    """A gateway with one web resource, and a person whose resident runs."""

    site: Site = field(factory=Site)
    gateway: Gateway = field(init=False)
    person: GatewayPerson = field(init=False)

    def __attrs_post_init__(self) -> None:
        target = GatewayTarget("board", f"127.0.0.1:{self.site.server_address[1]}", "web")
        self.gateway = make_gateway([target], numbers={"plugins.kinds": KINDS})
        self.person = self.gateway.add_person("ada", "ops")
        enable(self.person)
        self.gateway.set_policy(POLICY + DASHBOARD)
        self.person.up("board")

    @property
    def url(self) -> str:
        """Of the local endpoint."""
        host, port = self.person.endpoint("board")
        return f"http://{host}:{port}"


def enable(person: GatewayPerson, kinds: Sequence[str] = KINDS) -> None:
    """Let a person use resources of these kinds."""
    config = person.directory / "client.toml"
    config.write_text(f"plugins.kinds = {[*kinds]}\n{config.read_text('utf-8')}", "utf-8")


@cache
def web() -> Web:
    """The one of this process."""
    return Web()
