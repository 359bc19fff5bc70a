"""A Proxy that records all that it passes on has nothing that signs anybody in.

What it sees of a sign-in is what it sends to Authority's join listener and gets back: the TLS
around a person's connection ends at the Proxy.  Stock strace records exactly that.
"""

from __future__ import annotations

import json
import re
from unittest import TestCase

from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, PROXY
from tests.fault.strace import record
from tests.system.test_accounts import ada, first, gateway
from tests.system.typed import PASSWORD, TypedLogin, first_words, new_person

RUN_BY = "make fault"

_CALL = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_CLIENT_HELLO = b"\x16\x03\x01"


def recorded(text: str, port: str) -> tuple[bytes, bytes]:
    """What was sent to a port on this machine, and what came from it."""
    found = {True: b"", False: b""}
    for line in text.splitlines():
        if f"->127.0.0.1:{port}]" in line:
            is_sent = line.partition("(")[0].split()[-1] in {"sendto", "write", "sendmsg"}
            found[is_sent] += b"".join(
                bytes.fromhex(one.replace("\\x", "")) for one in _CALL.findall(line)
            )
    return found[True], found[False]


def both(text: str, port: str) -> tuple[bytes, bytes] | None:
    """The same, once there is a TLS handshake for each of two commands, and what it was for."""
    sent, came = recorded(text, port)
    return (sent, came) if sent.count(_CLIENT_HELLO) >= 2 and len(came) > 4096 else None


class RecordingTests(TestCase):
    """Enrolling with a password and an app, and signing in with a recovery code."""

    def test_nothing_that_signs_in(self) -> None:
        """All of it is inside TLS that ends at Authority: no secret passes in the clear."""
        here = gateway()
        first()
        _, _, port = here.listening(AUTHORITY)["join"].rpartition(":")
        with record(here.child(PROXY).pid, "sendto,recvfrom,read,write,sendmsg") as trace:
            holder = ada()
            laptop = new_person(here, "other-laptop")
            login = TypedLogin(laptop, ("--name", "ada", "--json", *first_words(here)))
            login.type(PASSWORD, holder.recovery[0])
            self.assertEqual(json.loads(login.ended())["name"], "ada")
            sent, came = until("both sign-ins in the recording", lambda: both(trace.text(), port))
        seed = holder.totp.secret
        for secret in (PASSWORD, seed, holder.code, *holder.recovery):
            self.assertNotIn(secret.encode(), sent + came)
        key = (laptop.directory / "state").rglob("*.key")
        for path in key:
            self.assertNotIn(path.read_bytes(), sent + came)
