"""The exception that ends a connection."""

from __future__ import annotations

from svc.errors import Fault, SvcError


class WireError(SvcError):
    """The peer broke HTTP/2 or a limit; a GOAWAY that says so is ready to be written.

    ``reason`` is ``protocol_error``, ``flow_control``, ``frame_too_long``,
    ``header_list_too_long``, ``no_settings``, ``unread_answers``, or a nuisance of
    ``svc.wire.floods`` with ``_flood`` behind it.
    """

    fault = Fault.UNAVAILABLE
    reason = "protocol_error"
