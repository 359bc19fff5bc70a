"""A dial that fails is told in words."""

from __future__ import annotations

from errno import EACCES
from socket import gaierror

from OpenSSL.SSL import Error as TlsError
from twisted.internet import defer
from twisted.internet.error import (
    ConnectError,
    ConnectionRefusedError,
    DNSLookupError,
    NoRouteError,
    TimeoutError,
)
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.runtime.dial_failure import dial_failure

_UNVERIFIED = "certificate verify failed"


class DialFailureTests(SynchronousTestCase):
    def test_words(self) -> None:
        """Each usual failure has its words; others have the system's, our own, or their name."""
        for failed, words in (
            (ConnectionRefusedError(), "connection refused"),
            (TimeoutError(), "timed out"),
            (defer.TimeoutError(), "timed out"),
            (TlsError([("SSL routines", "", "certificate verify failed")]), _UNVERIFIED),
            (TlsError([]), "TLS failed"),
            (DNSLookupError(), "no such host"),
            (gaierror(), "no such host"),
            (NoRouteError(), "no route to the host"),
            (ConnectionResetError(), "connection reset"),
            (ConnectError(osError=EACCES), "permission denied"),
            (SvcError("the target did not answer in time"), "the target did not answer in time"),
            (KeyError("x"), "KeyError"),
        ):
            self.assertEqual(dial_failure(failed), words)
