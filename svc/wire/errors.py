"""The one exception that ends a connection."""

from __future__ import annotations

from svc.errors import Fault, SvcError


class WireError(SvcError):
    """The peer broke HTTP/2 or a limit; a GOAWAY that says so is ready to be written.

    ``reason`` is ``protocol_error`` or ``flood``.
    """

    fault = Fault.UNAVAILABLE
    reason = "protocol_error"
