"""Why a connection failed, in words that an operator or a person understands."""

from __future__ import annotations

import os
from socket import gaierror

from OpenSSL.SSL import Error as TlsError
from twisted.internet import defer, error

from svc.errors import SvcError

VERIFY_FAILED = "certificate verify failed"
"""What OpenSSL says of a chain that does not end in our root, before any check of ours is asked."""

_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (error.ConnectionRefusedError, "connection refused"),
    (ConnectionRefusedError, "connection refused"),
    (error.TimeoutError, "timed out"),
    (TimeoutError, "timed out"),
    (defer.TimeoutError, "timed out"),
    (error.DNSLookupError, "no such host"),
    (error.UnknownHostError, "no such host"),
    (gaierror, "no such host"),
    (error.NoRouteError, "no route to the host"),
    (error.ConnectionLost, "connection reset"),
    (error.ConnectionDone, "connection closed"),
    (ConnectionResetError, "connection reset"),
)


def dial_failure(failed: BaseException) -> str:
    """The sentence for *failed*: of an unknown error the system's words, or else its name."""
    if isinstance(failed, SvcError):
        return failed.text
    if isinstance(failed, TlsError):
        words = failed.args[0] if failed.args else ()
        texts = [str(entry[-1]) for entry in words if isinstance(entry, tuple) and entry]
        return "; ".join(texts) or "TLS failed"
    for kind, words in _WORDS:
        if isinstance(failed, kind):
            return words
    number = getattr(failed, "osError", None) or getattr(failed, "errno", None)
    return os.strerror(number).lower() if isinstance(number, int) else type(failed).__name__
