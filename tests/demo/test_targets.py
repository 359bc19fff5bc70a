"""The services behind the demo's Connector, as a visitor meets them."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.protocol import Factory
from twisted.internet.testing import StringTransport
from twisted.internet.utils import getProcessOutputAndValue
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.demo.endpoints import Conversation
from svc.demo.kube_target import KubeApi
from svc.demo.scene import ECHO, RESOURCES, SSH, VAULT, WEB
from svc.demo.targets import Echo, Page, SameUserFactory, Targets
from tests.support.tools import stock_tool


class PageTests(SynchronousTestCase):
    """The page answers what any client asks."""

    def ask(self, *pieces: bytes) -> tuple[bytes, bool]:
        page, transport = Page(), StringTransport()
        page.makeConnection(transport)
        for piece in pieces:
            page.dataReceived(piece)
        return transport.value(), transport.disconnecting

    def test_answers_after_the_empty_line(self) -> None:
        """Both kinds of line ends are understood, and the length is told."""
        for request in (b"GET / HTTP/1.1\r\nHost: web\r\n\r\n", b"GET / HTTP/1.0\n\n"):
            heard, is_over = self.ask(request)
            head, _, body = heard.partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 200 OK"))
            self.assertIn(b"Content-Length: %d" % len(body), head)
            self.assertEqual(is_over, b"HTTP/1.0" in request)

    def test_says_nothing_before(self) -> None:
        """A request that is not whole yet gets no answer."""
        self.assertEqual(self.ask(b"GET / HT", b"TP/1.1\r\n"), (b"", False))

    def test_endless_line_is_cut(self) -> None:
        """What never ends its line is not kept in memory."""
        self.assertEqual(self.ask(b"G" * 20_000), (b"", True))


class OursOnlyTests(SynchronousTestCase):
    """A target looks at whose process connects."""

    def built(self, uid: int) -> Any:
        """What is built for a connection from a socket of *uid*."""
        mine = os.geteuid()
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        if uid != mine:
            os.seteuid(uid)
        try:
            asking = socket.socket()
        finally:
            if uid != mine:
                os.seteuid(mine)
        self.addCleanup(asking.close)
        asking.connect(listening.getsockname())
        accepted, (host, port) = listening.accept()
        self.addCleanup(accepted.close)
        guarded = SameUserFactory(Factory.forProtocol(Echo), listening.getsockname()[1])
        peer = type("Peer", (), {"host": host, "port": port})
        return guarded.buildProtocol(peer)

    def test_own_process_is_served(self) -> None:
        """A connection of this user gets a protocol."""
        self.assertIsInstance(self.built(os.geteuid()), Echo)

    def test_other_user_is_not(self) -> None:
        """A connection of another user gets none, and is closed unserved."""
        if os.geteuid() != 0:
            self.skipTest("only root can be a second user")
        self.assertIs(self.built(65534), None)


class KubeApiTests(SynchronousTestCase):
    """The API server answers the Connector, in a person's name, and nobody else."""

    def ask(
        self, line: bytes, *fields: bytes, pieces: tuple[bytes, ...] = ()
    ) -> tuple[int, dict[str, Any]]:
        api, transport = KubeApi("t0ken"), StringTransport()
        api.makeConnection(transport)
        api.dataReceived(b"\r\n".join((line + b" HTTP/1.1", *fields, b"", b"")))
        for piece in pieces:
            self.assertEqual(transport.value(), b"")
            api.dataReceived(piece)
        head, _, body = transport.value().partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), json.loads(body)

    def test_reads(self) -> None:
        """A pod is listed, as a list and as the table that kubectl prints."""
        who = (b"Authorization: Bearer t0ken", b"Impersonate-User: svc:ada")
        code, told = self.ask(b"GET /api/v1/namespaces/shop/pods?limit=500", *who)
        self.assertEqual((code, told["items"][0]["metadata"]["name"]), (200, "front"))
        table = b"Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
        code, told = self.ask(b"GET /api/v1/namespaces/shop/pods", *who, table)
        self.assertEqual((told["kind"], told["rows"][0]["cells"]), ("Table", ["front"]))
        self.assertEqual(self.ask(b"GET /api/v1/nodes", *who)[0], 404)
        self.assertEqual(self.ask(b"DELETE /api/v1/namespaces/shop/pods/front", *who)[0], 405)

    def test_what_one_may_do(self) -> None:
        """A question what one may do is answered once it is whole; an endless one is not read."""
        who = (b"Authorization: Bearer t0ken", b"Impersonate-User: svc:ada")
        line = b"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        length = b"Content-Length: 30"
        code, told = self.ask(line, *who, length, pieces=(b"{" * 15, b"\r\n\r\n" + b"}" * 11))
        self.assertEqual((code, told["status"]["allowed"]), (201, True))
        api, transport = KubeApi("t0ken"), StringTransport()
        api.makeConnection(transport)
        api.dataReceived(line + b" HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n")
        self.assertEqual((transport.value(), transport.disconnecting), (b"", True))

    def test_nobody_else(self) -> None:
        """Without the token, or in nobody's name, nothing is told."""
        for who in (
            (b"Impersonate-User: svc:ada",),
            (b"Authorization: Bearer t0ken",),
            (b"Authorization: Bearer other", b"Impersonate-User: svc:ada"),
        ):
            self.assertEqual(self.ask(b"GET /version", *who)[0], 401)


class TargetsTests(TestCase):
    """All of them, on real loopback ports."""

    async def talk(self, targets: Targets, name: str, said: bytes, enough: int) -> bytes:
        host, _, port = targets.addresses[name].rpartition(":")
        conversation = Conversation(said, enough)
        factory = Factory.forProtocol(lambda: conversation)
        await TCP4ClientEndpoint(reactor, host, int(port)).connect(factory)
        heard = await conversation.over
        assert conversation.transport is not None
        conversation.transport.loseConnection()
        return heard

    async def started(self) -> Targets:
        targets = Targets(reactor)
        await targets.start()
        self.addCleanup(lambda: Deferred.fromCoroutine(targets.stop()))
        return targets

    async def test_each_serves(self) -> None:
        """The echo echoes, the page is a page, and SSH speaks first."""
        targets = await self.started()
        self.assertEqual(set(targets.addresses), {one.id for one in RESOURCES})
        self.assertEqual(await self.talk(targets, ECHO.id, b"hello", 5), b"hello")
        page = await self.talk(targets, WEB.id, b"GET / HTTP/1.0\r\n\r\n", 0)
        self.assertIn(b"You came through", page)
        self.assertEqual((await self.talk(targets, SSH.id, b"", 8))[:8], b"SSH-2.0-")
        self.assertIn(b"open", await self.talk(targets, VAULT.id, b"", 0))

    async def test_stock_ssh_gets_one_line(self) -> None:
        """ssh is let in without a password, shown one line, and told that nothing was run."""
        ssh = stock_tool("ssh")
        targets = await self.started()
        host, _, port = targets.addresses[SSH.id].rpartition(":")
        quiet = ("-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes")
        to = (*quiet, "-o", "UserKnownHostsFile=/dev/null", "-p", port, f"ada@{host}")
        for more, status in (((), 0), (("true",), 126)):
            out, err, code = await getProcessOutputAndValue(
                ssh, ["-T", *to, *more], os.environ, None, reactor
            )
            self.assertEqual((code, out.strip()[:9]), (status, b"svc demo:"), err)
