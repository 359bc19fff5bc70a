"""The browser page, through a gateway of real processes: by stock curl."""

from __future__ import annotations

import contextlib
import re
import socket
from functools import cache
from html import unescape

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.files import free_ports
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Ran, run, until
from svc.testing.gateway.settings import AUTHORITY, POLICY, GatewayTarget
from tests.support.tools import stock_tool
from tests.system.world import around

KINDS = ["ssh", "tcp", "web"]
PAGE = "svc-page"
POLICY_OF_PAGE = """
@id("leads-end-sessions")
permit (principal in Group::"leads", action == Action::"manageSessions", resource is Cluster);
@id("guests-see-echo")
permit (principal in Group::"guests", action == Action::"view", resource == TcpService::"echo");
@id("echo-on-request") @requestable
permit (principal in Group::"guests", action == Action::"tcpConnect",
        resource == TcpService::"echo")
when { context has approved_request };
@id("not-there") @reason("ask the leads")
forbid (principal, action == Action::"webAccess", resource)
when { context has path && context.path like "/never*" };
@id("page-for-all")
permit (principal, action in [Action::"view", Action::"webConnect", Action::"webAccess"],
        resource == WebApp::"svc-page");
"""


@define(eq=False)
class PagedGateway:
    """A gateway with its page, and two persons with residents."""

    gateway: Gateway = field(init=False)
    ada: GatewayPerson = field(init=False)
    lead: GatewayPerson = field(init=False)
    guest: GatewayPerson = field(init=False)
    cookies: dict[str, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        address = f"127.0.0.1:{free_ports()[0]}"
        port = around().ports["echo"]
        targets = [
            GatewayTarget("echo", f"127.0.0.1:{port}"),
            GatewayTarget("vault", f"127.0.0.1:{port}", labels=("closed=yes",)),
            GatewayTarget(PAGE, address, "web", more={"identity": True}),
        ]
        numbers = {"plugins.kinds": KINDS, "page.listen": address}
        self.gateway = make_gateway(targets, policy=POLICY + POLICY_OF_PAGE, numbers=numbers)
        self.ada = self.person("ada", "ops")
        self.lead = self.person("lea", "leads")
        self.ada.up("echo", PAGE)
        self.lead.up(PAGE)
        self.guest = self.person("gus", "guests")

    def person(self, name: str, *groups: str) -> GatewayPerson:
        """A person whose programs know web applications."""
        made = self.gateway.add_person(name, *groups)
        config = made.directory / "client.toml"
        config.write_text(f"plugins.kinds = {KINDS}\n{config.read_text('utf-8')}", "utf-8")
        return made

    @property
    def listener(self) -> str:
        """Where Authority serves the page, past every gate."""
        return self.gateway.listening(AUTHORITY)["page"]


@cache
def paged() -> PagedGateway:
    """The one of this process."""
    return PagedGateway()


class PageCase(SynchronousTestCase):
    """A person with curl."""

    def setUp(self) -> None:
        self.curl_path = stock_tool("curl", "curl")
        self.paged = paged()

    def curl(self, person: GatewayPerson, *words: str) -> Ran:
        """Run curl once; its answer with the head."""
        command = [self.curl_path, "-isS", "--noproxy", "*", "--max-time", "30"]
        return run([*command, *words], person.home)

    def url(self, person: GatewayPerson, path: str) -> str:
        """At the person's local endpoint."""
        host, port = person.endpoint(PAGE)
        return f"http://{host}:{port}{path}"

    def page(
        self, path: str, person: GatewayPerson | None = None, *words: str, with_cookie: bool = True
    ) -> tuple[int, str]:
        """Status and text of a page; the person's cookie goes with it, as curl itself would not."""
        who = person or self.paged.ada
        cookies = self.paged.cookies
        brings = (
            ("-H", f"Cookie: {cookies[who.name]}") if with_cookie and who.name in cookies else ()
        )
        ran = self.curl(who, *brings, *words, self.url(who, path)).checked()
        head, _, said = ran.stdout.replace("\r\n", "\n").partition("\n\n")
        given = re.search(r"^set-cookie: (__Host-svc-page=[\w-]+); (.*)$", head, re.I | re.M)
        if given is not None:
            self.assertEqual(given[2], "Path=/; Secure; HttpOnly; SameSite=Strict")
            cookies[who.name] = given[1]
        return int(head.split()[1]), unescape(said)

    def opened(self, resource: str) -> socket.socket:
        """A connection of ada's, through which bytes have come."""
        client = socket.create_connection(self.paged.ada.endpoint(resource), 30)
        client.settimeout(30)
        client.sendall(b"x")
        self.assertEqual(client.recv(1), b"x")
        return client

    def assert_ends(self, client: socket.socket) -> None:
        """The connection is closed or reset."""
        with contextlib.suppress(ConnectionResetError):
            self.assertEqual(client.recv(1), b"")

    def form_of(
        self, resource: str, path: str = "/sessions", person: GatewayPerson | None = None
    ) -> dict[str, str]:
        """The hidden fields of the button that ends a session of a resource."""
        row = until(f"a session of {resource}", lambda: self._row(resource, path, person))
        return dict(re.findall(r'name="([a-z]+)" value="([^"]*)"', row))

    def _row(self, resource: str, path: str, person: GatewayPerson | None) -> str | None:
        _, said = self.page(path, person)
        rows = [one for one in said.split("<tr>") if f"<td>{resource}</td>" in one]
        return next((one for one in rows if "name=" in one), None)


class PageTests(PageCase):
    """What a person reads there."""

    def test_access(self) -> None:
        """The resources that the person may see, with how to open them, and what keeps one shut."""
        status, said = self.page("/")
        self.assertEqual(status, 200, said)
        self.assertIn("You are <strong>ada</strong>", said)
        self.assertIn("svc open svc-page", said)
        self.assertIn("denied by closed (closed for repairs)", said)
        _, others = self.page("/", self.paged.lead)
        self.assertNotIn("vault", others)

    def test_denials(self) -> None:
        """A refusal is listed with its policy and that one's reason."""
        ada = self.paged.ada
        # The reset may come before the connection has been told to be there.
        with (
            contextlib.suppress(ConnectionResetError),
            socket.create_connection(ada.endpoint("vault"), 30) as client,
        ):
            client.settimeout(30)
            self.assert_ends(client)
        refused = ada.refused("vault")
        status, said = until("the refusal is listed", lambda: self._listing(refused["decision_id"]))
        self.assertEqual(status, 200)
        row = next(row for row in said.split("<tr>") if refused["decision_id"] in row)
        for word in ("vault", "tcpConnect", "closed: closed for repairs"):
            self.assertIn(word, row)
        self.assertNotIn(refused["decision_id"], self.page("/denials", self.paged.lead)[1])

    def test_request(self) -> None:
        """What another asks for waits on the page with all that it allows, and what to type."""
        entry = self.paged.guest.svc("request", "echo", "--reason", "<b>fire</b>", "--json").json
        status, said = self.page("/requests")
        self.assertEqual(status, 200)
        row = next(row for row in said.split("<tr>") if entry["id"] in row)
        for word in ("gus", "echo (tcp)", "tcpConnect", f"svc requests approve {entry['id']}"):
            self.assertIn(word, row)
        self.assertNotIn("<form", said)

    def test_proposal(self) -> None:
        """A proposed policy is there with its difference, for who may read policies."""
        added = '@id("new") forbid (principal, action, resource == TcpService::"echo");'
        proposed = self.paged.gateway.operator(
            "policy", "propose", "-", "--json", stdin=f"{POLICY}{POLICY_OF_PAGE}{added}\n".encode()
        ).json["proposal"]
        self.assertIn(proposed, self.page("/policies")[1])
        status, said = self.page(f"/policies?id={proposed}")
        self.assertEqual(status, 200)
        self.assertIn(f"+{added}", said)
        self.assertIn(f"svc authority policy approve {proposed}", said)
        self.assertNotIn(proposed, self.page("/policies", self.paged.lead)[1])

    def test_denied_request(self) -> None:
        """A refused request inside a session is listed with what was asked, and is only text."""
        status, said = self.page("/never/%3Cb%3E")
        self.assertEqual(status, 403)
        decision = re.search(r"svc why ([0-9a-f]{32})", said)
        assert decision is not None, said
        _, said = until("the request is listed", lambda: self._listing(decision[1]))
        row = next(row for row in said.split("<tr>") if decision[1] in row)
        for word in (
            PAGE,
            "webAccess",
            "method=GET",
            "path=/never/<b>",
            "not-there: ask the leads",
        ):
            self.assertIn(word, row)

    def _listing(self, decision_id: str) -> tuple[int, str] | None:
        status, said = self.page("/denials")
        return (status, said) if decision_id in said else None

    def test_past_the_gate(self) -> None:
        """Who comes past the gate gets nothing, whatever it says of itself."""
        where = self.paged.listener
        for words in ((), ("-H", "svc-identity: ada"), ("-H", "svc-identity: a.b.c")):
            ran = self.curl(self.paged.ada, *words, f"http://{where}/").checked()
            self.assertIn("HTTP/1.1 401", ran.stdout)
            self.assertNotIn("ada", ran.stdout.replace("svc-identity", ""))

    def test_end(self) -> None:
        """A person ends a session by its form, and nothing ends it without."""
        ada = self.paged.ada
        with self.opened("echo") as client:
            form = self.form_of("echo")
            own = ("-H", f"Origin: {self.url(ada, '')}")
            data = ("-d", f"session={form['session']}&token={form['token']}")
            for status, words in (
                (403, (*own, "-d", f"session={form['session']}&token={'0' * 64}")),
                (403, ("-H", "Origin: http://evil.example", *data)),
                (403, data),
                (405, ()),
            ):
                self.assertEqual(self.page("/sessions/end", ada, *words)[0], status, words)
            stolen = self.page("/sessions/end", ada, *own, *data, with_cookie=False)
            self.assertEqual(stolen[0], 403)
            self.assertEqual(self.page("/sessions/end", ada, *own, *data)[0], 303)
            self.assert_ends(client)
        records = self.paged.gateway.operator(
            "audit", "show", "--session", form["session"], "--json"
        ).json
        (asked,) = (one for one in records if one["event"] == "session.end_asked")
        self.assertEqual((asked["actor"]["kind"], asked["actor"]["name"]), ("person", "ada"))

    def test_of_everybody(self) -> None:
        """Who may manage sessions by policy ends that of another person, who is told so."""
        lead = self.paged.lead
        with self.opened("echo") as client:
            form = self.form_of("echo", "/sessions?of=all", lead)
            data = "&".join(f"{name}={value}" for name, value in form.items())
            origin = f"Origin: {self.url(lead, '')}"
            ended = self.page("/sessions/end", lead, "-H", origin, "-d", data)
            self.assertEqual(ended[0], 303)
            self.assert_ends(client)
        until("it is told", lambda: "ended_by_operator" in self.ends())

    def ends(self) -> list[str]:
        """Why sessions of ada's ended, as her own machine was told."""
        return [one["reason"] for one in self.paged.ada.status()["ended"]]
