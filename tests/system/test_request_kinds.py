"""The five request kinds at a real gateway, by a kind that has an action of each."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import tempfile
from pathlib import Path
from threading import Thread
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.model.policy.access import SESSION_REQUESTS
from svc.testing.gateway.fork_server import SITE_PACKAGES
from svc.testing.gateway.gateway import make_gateway
from svc.testing.gateway.processes import Ran, run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY, ROLES, GatewayTarget
from tests.support.proof import proves

FIVE = """\
from svc.errors import Malformed
from svc.interfaces.kinds import Kind, KindTerms
from svc.kinds.opaque import AddressDialer, LabelledPort
from svc.model.session.parameters import Parameter

KIND = Kind(name="five", terms=":TERMS", dialer=":DIALER", gate=":serve", local=":LOCAL")
COUNTED = ("connect", "db_connect", "db_query", "kube", "web")
TERMS = KindTerms(
    "Five",
    open_action="fiveOpen",
    actions={"fiveOpen": "connect", **{f"five_{counted}": counted for counted in COUNTED}},
    parameters={"word": Parameter(form="[a-z]+", enforced=True, default="plain")},
    protocol="five",
)


class Dialer(AddressDialer):
    edits, enforces = {}, frozenset({"word"})

    def endpoint(self, reactor, target, ceiling):
        if ceiling != {"word": "plain"}:
            raise Malformed("not the ceiling")
        return super().endpoint(reactor, target, ceiling)


class Local(LabelledPort):
    edits = {}


DIALER, LOCAL = Dialer(kind="five"), Local()


async def serve(session):
    if session.ceiling != {"word": "plain"}:
        raise Malformed("not the ceiling")

    async def requests():
        while (line := await session.requests.until(b"\\n", 64)) is not None:
            verdict = await session.decide(f"five_{line.strip().decode()}", {})
            if verdict.allowed:
                await session.requests.pass_on(len(line))
            else:
                raise Malformed(verdict.reason)

    async def answers():
        while (line := await session.answers.until(b"\\n", 64)) is not None:
            await session.answers.pass_on(len(line))

    await session.both(requests(), answers())
"""

SOME = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);

@id("some")
permit (
  principal in Group::"ops",
  action in [Action::"view", Action::"fiveOpen", Action::"five_web"],
  resource
);
"""
DECIDED = "request.decision"


def echo(listening: socket.socket) -> None:
    """Send back what comes, until nothing more does."""
    while True:
        try:
            peer, _ = listening.accept()
        except OSError:
            return  # the test is over
        with contextlib.suppress(OSError), peer:
            while data := peer.recv(4096):
                peer.sendall(data)


class RequestKindTests(SynchronousTestCase):
    """Four processes that have one more kind installed."""

    def setUp(self) -> None:
        self.own = Path(tempfile.mkdtemp(prefix="svc-five-"))
        self.addCleanup(shutil.rmtree, self.own)
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        Thread(target=echo, args=(server,), daemon=True).start()
        target = GatewayTarget("five1", f"127.0.0.1:{server.getsockname()[1]}", "five")
        kinds = ["five", "tcp"]
        self.installed = self.version("first", FIVE)
        self.gateway = make_gateway(
            [target],
            numbers={"plugins.kinds": kinds},
            environ=dict.fromkeys(ROLES, self.installed),
        )
        self.addCleanup(self.gateway.end)
        self.ada = self.gateway.add_person("ada", "ops")
        config = self.ada.directory / "client.toml"
        config.write_text(f"plugins.kinds = {kinds}\n{config.read_text('utf-8')}", "utf-8")

    def version(self, name: str, text: str) -> dict[str, str]:
        """The environment of who has this version of the kind installed."""
        place = self.own / name / "site-packages"
        (place / "svc" / "plugins").mkdir(parents=True)
        (place / "svc" / "plugins" / "kind_five.py").write_text(text, "utf-8")
        return {SITE_PACKAGES: str(place)}

    def session(self, *requests: str) -> Ran:
        """One session with these requests."""
        said = "".join(f"{one}\n" for one in requests)
        command = svc_command("proxy-ssh", "five1", "--kind", "five")
        return run(command, self.ada.home, self.installed, stdin=said.encode())

    def exported(self, count: int) -> list[dict[str, Any]]:
        """The decisions of requests in an export, once they are so many."""

        def decisions() -> list[dict[str, Any]]:
            # Refused until the first head is signed.
            lines = self.gateway.operator("audit", "export", check=False).stdout.splitlines()
            found = [one for one in map(json.loads, lines) if one.get("event") == DECIDED]
            return found if len(found) == count else []

        return until("the decisions are in the log", decisions)

    @proves("G-GEN-04", "G-ROLE-17")
    def test_each_once(self) -> None:
        """Each request is decided by the Proxy and counted as one of five, whatever its action.

        Its gate and its dialer pass nothing unless they were handed the ceiling.
        """
        gateway, said = self.gateway, sorted(SESSION_REQUESTS)
        self.assertEqual(self.session(*said).checked().stdout.split(), said)
        name = "svc_request_authorize_total"
        counted = {
            one: gateway.metric(PROXY, name, kind=one, decision="allow") for one in SESSION_REQUESTS
        }
        # The open of it, and each of its requests.
        self.assertEqual(counted, {**dict.fromkeys(SESSION_REQUESTS, 1), "connect": 2})
        for role in (AUTHORITY, PROXY):
            samples = "\n".join(gateway.metrics(role))
            # The document's other series with this label says which CA is meant.
            kinds_of = re.findall(r'^(?!svc_ca_bundle_stale).*[{,]kind="([^"]*)"', samples, re.M)
            self.assertLessEqual(set(kinds_of), SESSION_REQUESTS)
            self.assertNotIn("five", samples)
        self.assertEqual(gateway.metric(PROXY, "svc_sessions_total", protocol="other"), 1)

    @proves("G-SES-06", "G-AUD-11")
    def test_recorded(self) -> None:
        """Each record names the action asked about; what no policy permits is denied."""
        self.gateway.set_policy(SOME)
        self.assertEqual(self.session("web", "kube").status, 1)
        recorded = [
            (one["cedar_action"], one["action"], one["decision"], one.get("policies"))
            for one in self.exported(3)
        ]
        self.assertEqual(
            sorted(recorded),
            [
                ("fiveOpen", "connect", "allow", ["some"]),
                ("five_kube", "kube", "deny", None),
                ("five_web", "web", "allow", ["some"]),
            ],
        )

    def test_another_version(self) -> None:
        """A Connector that enforces more than Authority granted opens nothing, and says why."""
        more = FIVE.replace('{"word": Parameter', '{"more": MORE, "word": Parameter')
        more = more.replace('{"word"})', '{"word", "more"})')
        more = more.replace("TERMS = ", 'MORE = Parameter(enforced=True, default="x")\nTERMS = ')
        connector = self.gateway.child(CONNECTOR)
        connector.stop()
        self.gateway.await_tunnels(0)
        connector.environ = {**connector.environ, **self.version("second", more)}
        self.gateway.start(CONNECTOR)
        self.gateway.await_tunnels(1)
        refused = self.session("web")
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        self.assertIn("the Connector cannot enforce what was granted", refused.stderr)
        self.assertIn("run the same version of its plug-in", connector.log.read_text("utf-8"))
