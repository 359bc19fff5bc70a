"""Every series that the documents name is shown by some role, once its feature is used."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import tests
from svc.telemetry.series import SERIES
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import CONNECTOR, GatewayTarget
from tests.support.proof import proves
from tests.system.common import ROLES
from tests.system.test_health import probes
from tests.system.world import around
from tests.telemetry.test_metrics import NAMES

RUN_BY = "make fault"

ELSEWHERE = {
    "svc_license_expires_unix": "ops/doctor/test_license.py",
    "svc_proxy_peer_opens_total": "system/peered.py",
}
"""What only a license that is signed for a build shows, or Proxies that relay to each other."""

HELD = "INSERT INTO outbox VALUES (1, 'o', 's', 1, x'', x'', x'', x'', x'00', 1, 0, NULL, NULL)"


class NamesTests(SynchronousTestCase):
    """One gateway whose features are used one after another."""

    def setUp(self) -> None:
        port = around().ports["echo"]
        self.target = GatewayTarget("echo", f"127.0.0.1:{port}")
        self.gateway: Gateway = make_gateway(
            [self.target],
            numbers={
                "doctor.check_interval_secs": 1,
                "identity.node_leaf_secs": 30,
                "limits.anonymous_per_minute": 60,
                "limits.anonymous_burst": 20,
            },
        )
        self.addCleanup(self.gateway.end)
        self.seen: set[str] = set()

    def look(self) -> set[str]:
        """The names that are shown now, and all that were seen until now."""
        for role in ROLES:
            for sample in self.gateway.metrics(role):
                name = sample.partition("{")[0]
                for suffix in ("_bucket", "_sum", "_count"):
                    if name.removesuffix(suffix) in NAMES:
                        name = name.removesuffix(suffix)
                self.seen.add(name)
        return self.seen

    @proves("G-MET-06")
    def test_all_of_them(self) -> None:
        """Those of the documents are seen, but for what another test shows."""
        later = {one.name for one in SERIES if one.later}
        for name in ELSEWHERE.keys() - later:
            module = ELSEWHERE[name]
            self.assertIn(name, Path(tests.__file__).parent.joinpath(module).read_text("utf-8"))
        self.use()
        wanted = set(NAMES) - ELSEWHERE.keys()
        until("every name is seen", lambda: not wanted - self.look(), 120)
        self.assertEqual(set(NAMES) - self.seen, ELSEWHERE.keys())

    def use(self) -> None:
        """A session that is cut, one to nobody, strangers' calls, and a row without a signature."""
        gateway, person = self.gateway, self.gateway.add_person("ada", "ops")
        gateway.operator("resources", "add", "idle", "--kind", "tcp")
        self.addCleanup(person.up("echo").stop)
        with socket.create_connection(person.endpoint("echo"), 60) as session:
            session.sendall(b"a")
            self.assertEqual(session.recv(1), b"a")
            self.look()
            gateway.child(CONNECTOR).kill()
            with contextlib.suppress(ConnectionResetError):
                session.recv(1)
        gateway.start(CONNECTOR)
        until("idle is known", lambda: "idle" in {one["resource"] for one in person.listed()})
        self.assertEqual(person.svc("proxy-ssh", "idle", "--kind", "tcp").status, 1)
        root = str(person.directory / "trust" / "root.pem")
        methods = [f"/gate.v1.Nothing/At{n}" for n in range(40)]
        probes({"address": gateway.public, "root": root, "methods": methods})
        with closing(sqlite3.connect(gateway.files.store, timeout=60)) as store, store:
            store.execute(HELD)
