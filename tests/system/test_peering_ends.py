"""How a session between two Proxies ends, whatever ends it; with real processes."""

from __future__ import annotations

import hashlib
import signal
from threading import Thread

from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import CONNECTOR, POLICY, PROXY
from tests.system.board import DASHBOARD
from tests.system.kernel import sockets_of
from tests.system.peered import ACTIVE, MUCH, NOBODY, SECOND, TIMEOUT_SECS, TUNNELS, PeeredCase
from tests.system.targets import blocks, digest_of
from tests.system.world import around

RUN_BY = "make fault"


class PeeringEndsTests(PeeredCase):
    """The person is told, both Proxies let go, and one of them reports it."""

    def test_much(self) -> None:
        """More than all windows on the way hold passes both Proxies, in both directions at once."""
        end = self.held()

        def send() -> None:
            for block in blocks(MUCH):
                end.sendall(block)

        sending = Thread(target=send)
        sending.start()
        left, digest = MUCH, hashlib.sha256()
        while left and (piece := end.recv(min(left, 1 << 16))):
            digest.update(piece)
            left -= len(piece)
        sending.join(TIMEOUT_SECS)
        self.assertEqual((left, digest.hexdigest()), (0, digest_of(MUCH)))
        end.close()
        self.await_active(0)

    def test_policy_changes(self) -> None:
        """What the policy no longer allows ends on both, and is reported once."""
        end, uid = self.opened()
        self.gateway.set_policy(POLICY + NOBODY)
        self.check_cut(end)
        self.await_active(0)
        self.check_end(uid, "policy_changed")
        self.gateway.set_policy(POLICY + DASHBOARD)

    def test_operator_ends_it(self) -> None:
        """`sessions end` reaches both."""
        end, uid = self.opened()
        self.gateway.operator("sessions", "end", "--resource", "echo")
        self.check_cut(end)
        self.await_active(0)
        self.check_end(uid, "ended_by_operator")

    def test_egress_stops(self) -> None:
        """The person hears that a Proxy was stopped, and is served again once it is back."""
        end, uid = self.opened()
        self.gateway.child(SECOND).signal(signal.SIGTERM)
        self.check_cut(end)
        self.await_active(0, PROXY)
        self.check_end(uid, "draining")
        self.gateway.child(SECOND).wait()
        self.gateway.start(SECOND)
        self.gateway.await_metric(SECOND, TUNNELS, 1)
        self.held().close()
        self.await_active(0)

    def test_ingress_stops(self) -> None:
        """So does one whose own Proxy is stopped, and nothing is left at the other one."""
        end, uid = self.opened()
        self.gateway.child(PROXY).signal(signal.SIGTERM)
        self.check_cut(end)
        self.await_active(0, SECOND)
        self.check_end(uid, "draining")
        self.gateway.child(PROXY).wait()
        self.gateway.start(PROXY)
        self.held().close()
        self.await_active(0)

    def test_egress_is_killed(self) -> None:
        """Its sessions end at the other one, which reports them."""
        end, uid = self.opened()
        self.gateway.child(SECOND).kill()
        self.check_cut(end)
        self.await_active(0, PROXY)
        self.check_end(uid, "peer_proxy_lost")
        self.gateway.start(SECOND)
        self.gateway.await_metric(SECOND, TUNNELS, 1)
        self.held().close()
        self.await_active(0)

    def test_ingress_is_killed(self) -> None:
        """Nothing is left at the other one and the Connector; the list says that it is away."""
        end, uid = self.opened()
        self.gateway.child(PROXY).kill()
        self.check_cut(end)
        self.await_active(0, SECOND)
        self.await_left_target()
        self.await_away(uid)
        self.gateway.start(PROXY)
        self.held().close()
        self.await_active(0)

    def test_ingress_hangs(self) -> None:
        """One that says nothing any more is given up by all within a bounded time."""
        end, uid = self.opened()
        proxy = self.gateway.child(PROXY)
        proxy.signal(signal.SIGSTOP)
        self.addCleanup(proxy.signal, signal.SIGCONT)
        self.gateway.await_metric(SECOND, ACTIVE, 0, 2 * TIMEOUT_SECS, protocol="tcp")
        self.await_left_target()
        self.await_away(uid)
        proxy.signal(signal.SIGCONT)
        self.check_cut(end)
        self.held().close()
        self.await_active(0)

    def await_left_target(self) -> None:
        """Wait until the Connector has no connection to the target any more."""
        target = f"127.0.0.1:{around().ports['echo']}"

        def left() -> bool:
            sockets = sockets_of(self.gateway.child(CONNECTOR))
            return not any(one.is_connected and one.remote == target for one in sockets)

        until("the Connector has let go", left, TIMEOUT_SECS)

    def await_away(self, uid: str) -> None:
        """Wait until operators see that nobody knows of this session any more."""

        def state() -> bool:
            rows = self.gateway.operator("sessions", "list", "--json").json
            return [one["state"] for one in rows if one["session_uid"] == uid] == ["proxy_away"]

        until("the session is listed as away", state, 2 * TIMEOUT_SECS)
