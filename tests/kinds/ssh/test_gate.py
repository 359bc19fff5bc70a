"""The gate between a client and a host: what passes, what does not, and how fast."""

from __future__ import annotations

from typing import Any

from twisted.conch.ssh.common import NS
from twisted.conch.ssh.transport import DISCONNECT_BY_APPLICATION
from twisted.internet.error import ConnectionDone
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.kinds.ssh.connection import MOST_CHANNELS, WINDOW
from svc.kinds.ssh.host_key import greeted, greeting
from svc.kinds.ssh.link import LEAVE_SECS
from svc.kinds.ssh.rights import ACTIONS
from tests.kinds.ssh.memory import ALL, PORT, Client, ClientChannel, Scene, new_key

EXEC = b"exec"


def forward(host: bytes, port: int) -> bytes:
    """The data of a channel to there."""
    return NS(host) + port.to_bytes(4, "big") + NS(b"127.0.0.1") + (9).to_bytes(4, "big")


class LoginTests(SynchronousTestCase):
    """Who is let in at the host, and who at the gate."""

    def refused(self, **fields: Any) -> str:
        failure = Scene(**fields).begin()
        error = getattr(failure, "value", None)
        self.assertIsInstance(error, SvcError, failure)
        assert isinstance(error, SvcError)
        return error.reason

    def test_host_key(self) -> None:
        """A host that shows another key than the configured one hears of no key of ours."""
        scene = Scene(shown_key=new_key())
        failure = scene.begin()
        self.assertEqual(failure.value.reason, "target_untrusted")
        self.assertEqual(scene.realm.users, [])

    def test_key(self) -> None:
        """A host that does not know the stored key refuses the opening."""
        self.assertEqual(self.refused(known_key=new_key()), "target_login_refused")

    def test_account(self) -> None:
        """The gate lets in the account of the grant and no other, and says which that is."""
        scene = Scene(user="root")
        scene.begin()
        self.assertIn(b"for the account ada and no other", scene.client.banner)
        self.assertEqual(scene.client.connection.transport, None)

    def test_nobody(self) -> None:
        """Whoever does not sign in is left after a while."""
        scene = Scene()
        scene.client_type = type("Silent", (Client,), {"connectionSecure": _ask_for_nothing})
        scene.begin()
        scene.clock.advance(61)
        scene.flush()
        self.assertNotEqual(scene.client.errors, [])

    def test_gate_key(self) -> None:
        """A client is shown the key that the greeting names."""
        scene = Scene()
        scene.begin()
        self.assertEqual(scene.client.shown, scene.gate_key.blob())
        named = type(scene.gate_key).fromString(greeted(greeting(scene.gate_key)))
        self.assertEqual(named.blob(), scene.client.shown)

    def test_strict(self) -> None:
        """Strict key exchange is used with whoever has it, and with nobody else."""
        for client, is_strict in ((Scene().client_type, True), (Client, False)):
            scene = Scene(client_type=client)
            scene.begin()
            channel = scene.run(b"true")
            self.assertTrue(channel.is_open)
            self.assertIs(getattr(scene.client, "is_strict", False), is_strict)

    def test_terrapin(self) -> None:
        """A packet that was put amid the first key exchange ends it."""

        class Prefixed(Scene().client_type):  # type: ignore[misc]
            """Somebody on the way puts one before the client's own."""

            def sendKexInit(self) -> None:
                super().sendKexInit()
                if self.sessionID is None:
                    self.sendIgnore(b"counted, and dropped later")

        scene = Scene(client_type=Prefixed)
        scene.begin()
        self.assertIn(b"amid the first key exchange", b"".join(t for _, t in scene.client.errors))


def _ask_for_nothing(client: Any) -> None:
    """Keys are there, and no more is said."""
    client.requestService(_Nothing())


class _Nothing:
    name = b"ssh-userauth"

    def serviceStarted(self) -> None:
        """No request."""

    def serviceStopped(self) -> None:
        """Nothing to stop."""


class PassedTests(SynchronousTestCase):
    """Channels with every right."""

    def setUp(self) -> None:
        self.scene = Scene()
        self.scene.begin()

    def test_command(self) -> None:
        """Bytes, errors, both ends and the status pass as they are."""
        channel = self.scene.run(b"sort")
        [host] = self.scene.host_channels
        self.assertEqual(host.asked, [(b"exec", NS(b"sort"))])
        channel.write(b"some")
        self.scene.client.connection.sendEOF(channel)
        self.scene.flush()
        self.assertEqual(host.came, b"some<end>")
        host.write(b"out")
        host.writeExtended(1, b"err")
        host.leave(3)
        self.scene.flush()
        self.assertEqual((channel.said, channel.errors, channel.status), (b"out", b"err", 3))
        self.assertTrue(channel.is_closed)

    def test_a_client_that_closes_first(self) -> None:
        """The status reaches one that has closed after the last byte, as ssh does."""
        channel = self.scene.run(b"sort")
        [host] = self.scene.host_channels
        channel.loseConnection()
        self.scene.flush()
        self.assertEqual((host.came, channel.is_closed), (b"<closed>", False))
        host.write(b"more")
        host.leave(3)
        self.scene.flush()
        self.assertEqual((channel.said, channel.status, channel.is_closed), (b"", 3, True))
        again = self.scene.run(b"sort")
        self.assertTrue(again.is_open)

    def test_terminal(self) -> None:
        """A terminal, its size and signals reach the host in order."""
        channel = self.scene.open(ClientChannel())
        for kind in (b"pty-req", b"shell", b"window-change", b"signal"):
            self.assertEqual(self.scene.ask(channel, kind, b"data"), [True], kind)
        [host] = self.scene.host_channels
        self.assertEqual(
            [kind for kind, _ in host.asked], [b"pty-req", b"shell", b"window-change", b"signal"]
        )

    def test_environment(self) -> None:
        """Harmless variables pass, others never."""
        channel = self.scene.open(ClientChannel())
        for name, passes in ((b"LANG", True), (b"LC_ALL", True), (b"LD_PRELOAD", False)):
            self.assertEqual(self.scene.ask(channel, b"env", NS(name) + NS(b"x")), [passes], name)

    def test_unknown_requests(self) -> None:
        """What is not known is answered with no, in order, and the host does not hear of it."""
        channel = self.scene.open(ClientChannel())
        self.assertEqual(self.scene.ask(channel, b"x-request"), [False])
        self.assertEqual(self.scene.ask(channel, b"subsystem", NS(b"netconf")), [True])
        self.assertIn(b"svc: no subsystem but sftp passes", channel.errors)
        self.assertEqual((channel.status, channel.is_closed), (1, True))
        self.assertEqual(self.scene.host_channels[0].asked, [])

    def test_runs_once(self) -> None:
        """A channel runs one thing."""
        channel = self.scene.run(b"true")
        self.assertEqual(self.scene.ask(channel, b"shell"), [False])

    def test_slow_client(self) -> None:
        """A client that does not read stops the host, and no more than a window waits."""
        channel = self.scene.open(ClientChannel(localWindow=1000))
        channel.conn.adjustWindow = lambda *_: None
        self.scene.ask(channel, b"exec", NS(b"yes"))
        [host] = self.scene.host_channels
        host.write(b"y" * (4 * WINDOW))
        self.scene.flush()
        self.assertEqual(len(channel.said), 1000)
        self.assertGreaterEqual(len(host.buf), 3 * WINDOW - 1000)

    def test_much(self) -> None:
        """More than a window passes while both sides read."""
        channel = self.scene.run(b"cat")
        [host] = self.scene.host_channels
        channel.write(b"x" * (3 * WINDOW))
        host.write(b"y" * (3 * WINDOW))
        self.scene.flush()
        self.assertEqual((len(host.came), len(channel.said)), (3 * WINDOW, 3 * WINDOW))

    def test_forwarding(self) -> None:
        """A forwarding passes, but to the host's own SSH, by whatever name."""
        channel = self.scene.open(ClientChannel(b"direct-tcpip"), forward(b"db", 5432))
        self.assertTrue(channel.is_open)
        for name in (b"localhost", b"127.0.0.1", b"another.name", b""):
            channel = self.scene.open(ClientChannel(b"direct-tcpip"), forward(name, PORT))
            text, code = channel.failure
            self.assertIn(b"host's own SSH server", text)
            self.assertEqual(code, 1)

    def test_channels(self) -> None:
        """There are only so many at once."""
        for _ in range(MOST_CHANNELS):
            self.assertTrue(self.scene.open(ClientChannel()).is_open)
        self.assertEqual(self.scene.open(ClientChannel()).failure[1], 4)

    def test_the_host_leaves(self) -> None:
        """A host that closes the connection ends the client's, and it is said why."""
        self.scene.run(b"true")
        assert self.scene.below.pump is not None
        self.scene.below.pump.server.transport.loseConnection()
        self.scene.flush()
        self.assertIn(b"the target closed", b"".join(text for _, text in self.scene.client.errors))

    def test_the_client_leaves(self) -> None:
        """A client that says so and closes the connection ends the session in order."""
        self.scene.run(b"true")
        self.scene.client.sendDisconnect(DISCONNECT_BY_APPLICATION, b"")
        self.scene.flush()
        self.assertFalse(self.scene.session.is_over)
        self.scene.session.transport.loseConnection()
        self.assertIsInstance(self.scene.session.fault, ConnectionDone)
        self.scene.flush()
        self.assertEqual(self.scene.clock.getDelayedCalls(), [])

    def test_the_client_only_says_that_it_leaves(self) -> None:
        """One that goes on is left after a while, and heard no more until then."""
        channel = self.scene.run(b"cat")
        self.scene.client.sendDisconnect(DISCONNECT_BY_APPLICATION, b"")
        channel.write(b"more")
        self.scene.flush()
        self.assertEqual(self.scene.host_channels[0].came, b"")
        self.scene.clock.advance(LEAVE_SECS)
        self.assertIsInstance(self.scene.session.fault, ConnectionDone)

    def test_the_client_is_gone(self) -> None:
        """A connection that is closed without a word was left by nobody."""
        self.scene.run(b"true")
        self.scene.session.transport.loseConnection()
        fault = self.scene.session.fault
        self.assertIsInstance(fault, SvcError)
        self.assertEqual(getattr(fault, "reason", ""), "cancelled")

    def test_no_ssh(self) -> None:
        """What is no SSH ends the session."""
        self.scene.client.transport.write(bytes(64))
        self.scene.flush()
        self.assertTrue(self.scene.session.is_over)


class DeniedTests(SynchronousTestCase):
    """Each right by itself is enough for what it names, and for nothing else."""

    def begun(self, *rights: str) -> Scene:
        scene = Scene(rights=frozenset(rights))
        scene.begin()
        return scene

    def test_runs(self) -> None:
        """Without its right a shell or command says why and ends with 1; the host hears nothing."""
        for kind, data, right in ((b"shell", b"", "shell"), (b"exec", NS(b"id"), "exec")):
            scene = self.begun(*(ALL - {right}))
            channel = scene.open(ClientChannel())
            self.assertEqual(scene.ask(channel, kind, data), [True])
            self.assertIn(f"svc: {right} is not allowed".encode(), channel.errors)
            self.assertIn(b"svc why " + b"d" * 32, channel.errors)
            self.assertEqual((channel.status, channel.is_closed), (1, True))
            self.assertEqual(scene.host_channels[0].asked, [])
            self.assertEqual(scene.used, [f"denied {right}"])

    def test_switches(self) -> None:
        """Terminal, agent and display are refused without their rights, and what runs goes on."""
        for kind, right in (
            (b"pty-req", "pty"),
            (b"auth-agent-req@openssh.com", "agent"),
            (b"x11-req", "x11"),
        ):
            scene = self.begun(*(ALL - {right}))
            channel = scene.open(ClientChannel())
            self.assertEqual(scene.ask(channel, kind, b"data"), [False])
            self.assertEqual(scene.ask(channel, b"shell"), [True])
            self.assertEqual([one for one, _ in scene.host_channels[0].asked], [b"shell"])

    def test_forwarding(self) -> None:
        """Forwardings are refused in the channel's own words."""
        scene = self.begun(*(ALL - {"forward_local", "streamlocal"}))
        for kind, data, right in (
            (b"direct-tcpip", forward(b"db", 5432), "forward_local"),
            (b"direct-streamlocal@openssh.com", NS(b"/run/x") + NS(b"") + bytes(4), "streamlocal"),
        ):
            text, code = scene.open(ClientChannel(kind), data).failure
            self.assertIn(f"svc: {right} is not allowed".encode(), text)
            self.assertEqual(code, 1)
        self.assertEqual(scene.host_channels, [])

    def test_listening(self) -> None:
        """A port at the host is asked for with the right alone."""
        for rights, said in ((ALL - {"forward_remote"}, "denied forward_remote"),):
            scene = self.begun(*rights)
            got: list[Any] = []
            asked = scene.client.connection.sendGlobalRequest(
                b"tcpip-forward", NS(b"") + (8080).to_bytes(4, "big"), wantReply=True
            )
            asked.addBoth(got.append)
            scene.flush()
            self.assertTrue(hasattr(got[0], "value"))
            self.assertEqual(scene.used, [said])

    def test_nothing(self) -> None:
        """With no right at all nothing ever reaches the host but channels that stay empty."""
        scene = self.begun()
        for kind in (b"pty-req", b"env", b"shell", b"exec", b"x11-req"):
            channel = scene.open(ClientChannel())
            scene.ask(channel, kind, NS(b"LANG") + NS(b"C"))
        self.assertEqual([one.asked for one in scene.host_channels], [[]] * 5)
        self.assertLess(set(scene.used), {f"denied {right}" for right in ACTIONS})
