"""What a client or a host may make the gate hold, or do, is bounded."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.conch.error import ConchError
from twisted.conch.ssh.common import NS
from twisted.conch.ssh.transport import DISCONNECT_BY_APPLICATION
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.ssh import connection, transport
from svc.kinds.ssh.connection import FAR, LEAST_WINDOW, MOST_CHANNELS, WINDOW, Outflow
from svc.kinds.ssh.link import LEAVE_SECS
from tests.kinds.ssh.memory import PORT, ClientChannel, Scene, StrictClient, new_key
from tests.kinds.ssh.test_gate import forward

ALIVE = b"keepalive@openssh.com"


class Halting(StrictClient):
    """Begins to make keys, and goes no further."""

    halts = False

    def ssh_KEXINIT(self, packet: bytes) -> Any:
        return None if self.halts else super().ssh_KEXINIT(packet)


@define
class Source:
    """A push producer that says what it was told."""

    told: list[str] = field(factory=list)

    def pauseProducing(self) -> None:
        self.told.append("pause")

    def resumeProducing(self) -> None:
        self.told.append("resume")


class MemoryTests(SynchronousTestCase):
    """What waits."""

    def test_key_exchange(self) -> None:
        """A client that never ends a key exchange makes the gate keep no more than a window."""
        scene = Scene(client_type=Halting)
        scene.begin()
        channel = scene.open(ClientChannel(localWindow=1 << 30))
        scene.ask(channel, b"exec", NS(b"yes"))
        scene.client.halts = True
        scene.client.sendKexInit()
        scene.flush()
        [host] = scene.host_channels
        host.write(b"y" * (8 * WINDOW))
        scene.flush()
        self.assertEqual(channel.said, b"")
        self.assertGreaterEqual(len(host.buf), 7 * WINDOW)

    def test_requests_amid_a_key_exchange(self) -> None:
        """Nor does it let answers without number wait for the keys."""
        self.patch(transport, "_MOST_BLOCKED", 100)
        scene = Scene(client_type=Halting)
        scene.begin()
        scene.client.halts = True
        scene.client.sendKexInit()
        scene.flush()
        alive = NS(ALIVE) + b"\1"
        scene.client._keyExchangeState = scene.client._KEY_EXCHANGE_NONE  # it sends what it likes
        for _ in range(102):
            scene.client.sendPacket(80, alive)
        scene.flush()
        self.assertTrue(scene.session.is_over)

    def test_unread_answers(self) -> None:
        """Neither side is read while a connection takes nothing and much was written to it."""
        source, outflow = Source(), Outflow()
        outflow.sources = (source,)
        outflow.wrote(2 * FAR)
        outflow.pauseProducing()
        outflow.wrote(FAR)
        self.assertEqual(source.told, [])
        outflow.wrote(1)
        self.assertEqual(source.told, ["pause"])
        outflow.resumeProducing()
        self.assertEqual(source.told, ["pause", "resume"])
        outflow.pauseProducing()
        outflow.wrote(FAR)
        self.assertEqual(source.told, ["pause", "resume"])

    def test_client_that_reads_nothing(self) -> None:
        """It is asked for no more once its answers fill what is kept of them."""
        self.patch(connection, "FAR", 1 << 14)
        scene = Scene()
        scene.begin()
        source = Source()
        scene.session.transport.registerProducer(source, True)
        scene.session.transport.pauseProducing()
        for _ in range(4000):  # each answer is some 64 bytes
            scene.client.sendPacket(80, NS(ALIVE) + b"\1")
        scene.flush()
        self.assertEqual(source.told[:1], ["pause"])
        scene.session.transport.resumeProducing()
        self.assertEqual(source.told[-1], "resume")

    def test_client_that_only_says_that_it_leaves(self) -> None:
        """Nothing that it sends after its DISCONNECT is kept while it is waited for."""
        scene = Scene()
        scene.begin()
        scene.client.sendDisconnect(DISCONNECT_BY_APPLICATION, b"")
        scene.flush()
        kept = len(scene.gate.buf)
        for _ in range(100):
            scene.session.transport.write(b"x" * 1000)
        self.assertFalse(scene.session.is_over)
        self.assertEqual(len(scene.gate.buf), kept)

    def told_to_leave(self) -> Scene:
        """A session that the gate ends, whose client reads nothing."""
        scene = Scene()
        scene.begin()
        scene.session.transport.pauseProducing()
        scene.gate.leave(b"svc: enough")
        return scene

    def test_client_that_is_told_to_leave_and_reads_nothing(self) -> None:
        """It has a few seconds to read what is left; what it sends meanwhile is not kept."""
        scene = self.told_to_leave()
        link = scene.session.transport._link
        scene.session.transport.write(b"x" * 1000)
        self.assertEqual(sum(map(len, link._heard)), 0)
        scene.clock.advance(LEAVE_SECS - 0.1)
        self.assertFalse(scene.session.is_over)
        scene.clock.advance(0.1)
        self.assertTrue(scene.session.is_over)

    def test_client_that_is_told_to_leave_and_reads(self) -> None:
        """It is left as soon as it has read that."""
        scene = self.told_to_leave()
        scene.session.transport.resumeProducing()
        self.assertTrue(scene.session.is_over)
        scene.flush()
        self.assertEqual(scene.clock.getDelayedCalls(), [])

    def test_windows(self) -> None:
        """Many channels have smaller windows than few."""
        scene = Scene()
        scene.begin()
        channels = [scene.open(ClientChannel()) for _ in range(MOST_CHANNELS)]
        windows = [one.remoteWindowLeft for one in channels]
        self.assertEqual((windows[0], windows[-1]), (WINDOW, LEAST_WINDOW))
        self.assertLess(sum(windows), 20 * WINDOW)

    def test_channels_on_their_way(self) -> None:
        """A channel that the host has not opened yet is one of those that there may be."""
        scene = Scene()
        scene.begin()
        channels = [ClientChannel() for _ in range(2 * MOST_CHANNELS)]
        for one in channels:
            scene.client.connection.openChannel(one)
        scene.session.flush()  # the host hears nothing yet
        scene.session.flush()
        self.assertEqual([one.failure[1] for one in channels if one.failure], [4] * MOST_CHANNELS)

    def test_shown(self) -> None:
        """What holds a private key does not show it."""
        scene = Scene(gate_key=new_key())
        scene.begin()
        secret = repr(scene.gate_key)[-60:]
        self.assertNotIn(secret, repr(scene.endpoint))


class WorkTests(SynchronousTestCase):
    """What it costs to serve whoever asks for much work."""

    def test_least_packet(self) -> None:
        """A client that takes a byte at a time would make a packet of each."""
        scene = Scene()
        scene.begin()
        failure = scene.open(ClientChannel(localMaxPacket=1)).failure
        self.assertEqual(failure[1], 4)
        self.assertIn(b"1024 bytes", failure[0])

    def test_bytes_that_wait(self) -> None:
        """A window that opens byte by byte passes the bytes in order."""
        scene = Scene()
        scene.begin()
        channel = scene.open(ClientChannel(localWindow=10))
        scene.ask(channel, b"exec", NS(b"yes"))
        adjust, channel.conn.adjustWindow = channel.conn.adjustWindow, lambda *_: None
        [host] = scene.host_channels
        text = bytes(range(256)) * 8
        host.write(text)
        host.writeExtended(1, b"err")
        host.leave(0)
        scene.flush()
        while len(channel.said) < len(text) and channel.said == text[: len(channel.said)]:
            adjust(channel, 97)
            scene.flush()
        self.assertEqual(channel.said, text)
        adjust(channel, 97)
        scene.flush()
        self.assertEqual((channel.errors, channel.is_closed), (b"err", True))

    def test_window_by_single_bytes(self) -> None:
        """What waits is not copied for each byte that may go."""
        scene = Scene()
        scene.begin()
        channel = scene.open(ClientChannel(localWindow=10))
        scene.ask(channel, b"exec", NS(b"yes"))
        adjust, channel.conn.adjustWindow = channel.conn.adjustWindow, lambda *_: None
        [host] = scene.host_channels
        host.write(b"y" * WINDOW)
        scene.flush()
        [near] = scene.gate.service.channels.values()
        kept = near.buf
        adjust(channel, 1)
        scene.flush()
        self.assertIs(near.buf, kept)
        self.assertEqual(len(channel.said), 11)


class TimeTests(SynchronousTestCase):
    """Nothing is waited for without end."""

    def test_silence(self) -> None:
        """A client that says nothing at all is left after a while."""
        scene = Scene()
        mute = {"connectionMade": lambda _: None, "dataReceived": lambda *_: None}
        scene.client_type = type("Mute", (StrictClient,), mute)
        scene.begin()
        scene.clock.advance(61)
        scene.flush()
        self.assertTrue(scene.session.is_over)

    def test_in_time(self) -> None:
        """One that has logged in stays."""
        scene = Scene()
        scene.begin()
        scene.clock.advance(3600)
        self.assertTrue(scene.run(b"true").is_open)
        self.assertEqual(scene.clock.getDelayedCalls(), [])

    def test_host_that_reads_nothing(self) -> None:
        """The connection to a host is gone soon after the session, whatever waits for it."""
        scene = Scene()
        scene.begin()
        assert scene.below.pump is not None
        onward = scene.below.pump.clientIO
        gone: list[bool] = []
        onward.abortConnection = lambda: gone.append(True)
        scene.session.transport.loseConnection()
        self.assertEqual(gone, [])
        scene.clock.advance(6)
        self.assertEqual(gone, [True])


class OrderTests(SynchronousTestCase):
    """Odd orders."""

    def setUp(self) -> None:
        self.scene = Scene()
        self.scene.begin()

    def test_keys_made_by_the_host(self) -> None:
        """A host that makes keys anew is not asked for a login again, which would end it all."""
        assert self.scene.below.pump is not None
        channel = self.scene.run(b"cat")
        self.scene.below.pump.server.sendKexInit()
        self.scene.flush()
        [host] = self.scene.host_channels
        host.write(b"still there")
        self.scene.flush()
        self.assertEqual(channel.said, b"still there")

    def test_after_leaving(self) -> None:
        """What comes after a client has said that it leaves is not heard."""
        client = self.scene.client
        client.sendPacket(1, (11).to_bytes(4, "big") + NS(b"bye") + NS(b""))
        client.connection.openChannel(ClientChannel(b"direct-tcpip"), forward(b"db", 5432))
        self.scene.flush()
        self.assertEqual(self.scene.used, [])

    def test_channel_of_nobody(self) -> None:
        """Bytes for a channel that is not there end the session; no traceback is for whom it is."""
        for side in ("client", "host"):
            scene = Scene()
            scene.begin()
            assert scene.below.pump is not None
            sender = scene.client if side == "client" else scene.below.pump.server
            sender.sendPacket(94, bytes(8))
            scene.flush()
            self.assertTrue(scene.session.is_over, side)
            self.assertEqual(self.flushLoggedErrors(), [], side)

    def test_agent_that_nobody_offered(self) -> None:
        """A host may lead to the person's side where the client has asked for that, not before."""
        assert self.scene.below.pump is not None
        server = self.scene.below.pump.server

        def refused() -> bytes:
            channel = ClientChannel(b"auth-agent@openssh.com")
            server.service.openChannel(channel)
            self.scene.flush()
            return bytes(channel.failure[0])

        self.assertEqual(refused(), b"the client has not asked for this")
        channel = self.scene.open(ClientChannel())
        self.scene.ask(channel, b"auth-agent-req@openssh.com")
        self.assertEqual(refused(), b"unknown channel")  # in the client's own words
        self.assertEqual(len(self.flushLoggedErrors(ConchError)), 1)  # of the client's, a Conch

    def test_ports_beyond(self) -> None:
        """A number whose lower half is the port of the host's own SSH leads there at some hosts."""
        channel = self.scene.open(ClientChannel(b"direct-tcpip"), forward(b"x", PORT + 65536))
        self.assertIn(b"host's own SSH server", channel.failure[0])

    def test_no_more_sessions(self) -> None:
        """A client that has said so opens no more sessions, and may still forward."""
        self.scene.client.connection.sendGlobalRequest(b"no-more-sessions@openssh.com", b"")
        self.scene.flush()
        self.assertEqual(self.scene.open(ClientChannel()).failure[1], 1)
        channel = self.scene.open(ClientChannel(b"direct-tcpip"), forward(b"db", 5432))
        self.assertTrue(channel.is_open)

    def test_denied_listening_is_said(self) -> None:
        """A port that is refused is explained on the stderr of the session that begins then."""
        scene = Scene(rights=frozenset({"exec"}))
        scene.begin()
        scene.client.connection.sendGlobalRequest(b"tcpip-forward", NS(b"") + bytes(4))
        scene.flush()
        channel = scene.run(b"true")
        self.assertIn(b"svc: forward_remote is not allowed", channel.errors)
