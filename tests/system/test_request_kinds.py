"""The five request kinds at a real gateway, by a kind that has an action of each."""

from __future__ import annotations

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
from svc.testing.gateway.processes import run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, PROXY, ROLES, GatewayTarget
from tests.proof import proves

FIVE = """\
from svc.interfaces.kinds import Kind, KindTerms
from svc.kinds.opaque import AddressDialer, LabelledPort

KIND = Kind(name="five", terms=":TERMS", dialer=":DIALER", gate=":serve", local=":LOCAL")
COUNTED = ("connect", "db_connect", "db_query", "kube", "web")
TERMS = KindTerms(
    "Five",
    open_action="fiveOpen",
    actions={"fiveOpen": "connect", **{f"five_{counted}": counted for counted in COUNTED}},
    protocol="five",
)


class Dialer(AddressDialer):
    edits = {}


class Local(LabelledPort):
    edits = {}


DIALER, LOCAL = Dialer(kind="five"), Local()


async def serve(session):
    async def requests():
        while (line := await session.requests.until(b"\\n", 64)) is not None:
            verdict = await session.decide(f"five_{line.strip().decode()}", {})
            if verdict.allowed:
                await session.requests.pass_on(len(line))
            else:
                raise ValueError(verdict.reason)

    async def answers():
        while (line := await session.answers.until(b"\\n", 64)) is not None:
            await session.answers.pass_on(len(line))

    await session.both(requests(), answers())
"""


def echo(listening: socket.socket) -> None:
    """Send back what comes, until nothing more does."""
    while True:
        try:
            peer, _ = listening.accept()
        except OSError:
            return  # the test is over
        with peer:
            while data := peer.recv(4096):
                peer.sendall(data)


class RequestKindTests(SynchronousTestCase):
    """Four processes that have one more kind installed."""

    @proves("G-GEN-04", "G-ROLE-17")
    def test_each_once(self) -> None:
        """Each request is decided by the Proxy and counted as one of five, whatever its action."""
        own = Path(tempfile.mkdtemp(prefix="svc-five-"))
        self.addCleanup(shutil.rmtree, own)
        place = own / "site-packages"
        (place / "svc" / "plugins").mkdir(parents=True)
        (place / "svc" / "plugins" / "kind_five.py").write_text(FIVE, "utf-8")
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        Thread(target=echo, args=(server,), daemon=True).start()
        target = GatewayTarget("five1", f"127.0.0.1:{server.getsockname()[1]}", "five")
        kinds = ["five", "tcp"]
        installed = {SITE_PACKAGES: str(place)}
        gateway = make_gateway(
            [target],
            numbers={"plugins.kinds": kinds},
            environ=dict.fromkeys(ROLES, installed),
        )
        self.addCleanup(gateway.end)
        ada = gateway.add_person("ada", "ops")
        config = ada.directory / "client.toml"
        config.write_text(f"plugins.kinds = {kinds}\n{config.read_text('utf-8')}", "utf-8")
        said = "".join(f"{one}\n" for one in sorted(SESSION_REQUESTS))
        command = svc_command("proxy-ssh", "five1", "--kind", "five")
        done = run(command, ada.home, installed, stdin=said.encode())
        self.assertEqual(done.checked().stdout, said)
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
        self.check_recorded(gateway)

    def check_recorded(self, gateway: Any) -> None:
        """The records name the kind's own action beside what it counts as."""
        words = ("audit", "show", "--event", "request.decision", "--last", "9", "--json")

        def decisions() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = gateway.operator(*words).json
            return found if len(found) == 6 else []

        recorded = {
            (one["cedar_action"], one["action"])
            for one in until("the decisions are in the log", decisions)
        }
        each = {(f"five_{one}", one) for one in SESSION_REQUESTS}
        self.assertEqual(recorded, {("fiveOpen", "connect"), *each})
