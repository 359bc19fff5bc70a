"""TLS towards an application, over a real connection: only the right certificate is spoken to."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from OpenSSL import SSL
from service_identity import VerificationError
from twisted.internet import reactor as real_reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import CertificateOptions
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from svc.errors import SvcError
from svc.kinds.web.dialer import DIALER
from tests.rpc.certificates import TestCA

reactor: Any = real_reactor
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Application(Protocol):
    """Answers the first bytes with its transport's ALPN."""

    transport: Any

    def dataReceived(self, data: bytes) -> None:
        """Answer once."""
        self.transport.write(b"HTTP/1.1 200 " + self.transport.negotiatedProtocol + data)


class Client(Protocol):
    """Asks once, and keeps what comes."""

    def __init__(self) -> None:
        self.heard: Deferred[bytes] = Deferred()
        self.gone: Deferred[None] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.heard.callback(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Nothing more comes."""
        self.gone.callback(None)


class SecuredTests(TestCase):
    def setUp(self) -> None:
        self.ca = TestCA("ours")
        both = self.ca.leaf("spiffe://x").both
        options = CertificateOptions(
            privateKey=both.privateKey.original,
            certificate=both.original,
            acceptableProtocols=[b"http/1.1"],
        )
        self.port = reactor.listenSSL(
            0, Factory.forProtocol(Application), options, interface="127.0.0.1"
        )
        self.addCleanup(self.port.stopListening)
        self.directory = Path(tempfile.mkdtemp(prefix="svc-web-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def connecting(self, ca: TestCA | None, host: str) -> Deferred[Any]:
        """A connection to the application, known as *host* and certified by *ca*."""
        file = self.directory / "ca.pem"
        if ca is not None:
            file.write_bytes(ca.pem)
        table = {
            "address": f"127.0.0.1:{self.port.getHost().port}",
            "host": host,
            "tls": "verify",
            "ca_file": str(file),
        }
        target = DIALER.parse("app", table, "r[0]")
        return DIALER.endpoint(reactor, target, {}).connect(Factory.forProtocol(Client))

    async def test_verified(self) -> None:
        """It is connected once the application has proved its name; HTTP/1.1 is agreed on."""
        client = await self.connecting(self.ca, "localhost:8443")
        client.transport.write(REQUEST)
        heard = await client.heard
        self.assertEqual(
            heard, b"HTTP/1.1 200 http/1.1" + REQUEST.replace(b": x", b": localhost:8443")
        )
        client.transport.loseConnection()
        await client.gone

    async def test_refused(self) -> None:
        """Another authority or another name is not spoken to."""
        for ca, host, error in (
            (TestCA("others"), "localhost", SSL.Error),
            (self.ca, "other.example", VerificationError),
        ):
            with self.assertRaises(error):
                await self.connecting(ca, host)

    async def test_no_authorities(self) -> None:
        """A file that cannot be read opens nothing."""
        with self.assertRaises(SvcError) as found:
            await self.connecting(None, "localhost")
        self.assertEqual(found.exception.reason, "target_untrusted")
