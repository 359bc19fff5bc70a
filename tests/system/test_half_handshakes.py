"""TLS handshakes that are begun and never ended, by the thousand."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import ssl
from contextlib import ExitStack

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import init_gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import PROXY
from tests.system.raw import greeted

RUN_BY = "make fault"

IS_LONG = os.environ.get("SVC_LONG") == "1"
HALF, ROUNDS = (7000, 3) if IS_LONG else (1500, 1)
"""Handshakes that are begun and not ended, as often."""

_MEGABYTES = 70
"""What they may cost: 512 handshakes of some 60 KiB, and thousands of connections of some 5."""

_ADDRESSES = 30


def first_flight() -> bytes:
    """What a client says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    return out.read()


class HalfHandshakeTests(SynchronousTestCase):
    """A Proxy's public listener."""

    def test_never_ended(self) -> None:
        """They cost little, they are said, and who comes properly is served beside them."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        gateway = init_gateway()
        self.addCleanup(gateway.end)
        gateway.make_authority()
        gateway.make_proxy()
        proxy, hello = gateway.child(PROXY), first_flight()
        host, _, port = gateway.public.rpartition(":")
        before = proxy.rss()
        for _ in range(ROUNDS):
            with ExitStack() as held:
                for number in range(HALF):
                    at = (f"127.0.2.{1 + number % _ADDRESSES}", 0)
                    peer = socket.create_connection((host, int(port)), 30, source_address=at)
                    held.enter_context(peer).send(hello)
                greeted(gateway.public, "127.0.3.1").close()
                until(
                    "the reason in the log",
                    lambda: "too_many_handshakes" in proxy.text(),
                    alive=[proxy],
                )
                self.assertLess((proxy.rss() - before) / 1e6, _MEGABYTES)
