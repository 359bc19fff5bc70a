"""Checks HTTP/2 messages: what makes one malformed (RFC 9113 8.1.1).

A malformed message ends its stream; whatever else is open on the connection goes on.
That is safe, because a header block was decompressed before its fields are judged: the state
that all streams share is as its sender left it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from h2.events import Event
from h2.exceptions import InvalidBodyLengthError, ProtocolError
from h2.stream import H2Stream, StreamState

from svc.wire.heads import Fields

_AUTHORITY = b":authority"


class MalformedMessage(ProtocolError):
    """A request or an answer whose fields or length may not be; its stream is to be reset."""


class MessageStream(H2Stream):
    """A stream of ``h2`` that tells a malformed message from a broken protocol."""

    def receive_headers(
        self, headers: Iterable[Any], end_stream: bool, header_encoding: Any
    ) -> tuple[list[Any], list[Event]]:
        """Judge the length that a message without a body names, and trailers that end nothing."""
        state = self.state_machine
        is_request = state.client is False and state.state is StreamState.OPEN
        if is_request and state.headers_received and not end_stream:
            raise MalformedMessage("trailers do not end the request")
        frames, events = super().receive_headers(headers, end_stream, header_encoding)
        if end_stream:
            self._track_content_length(0, True)
        return frames, events

    def _initialize_content_length(self, headers: Iterable[Any]) -> None:
        if self._expected_content_length is not None:
            return  # trailers name no length
        if type(headers) is Fields and not headers.names_length:
            return  # no call of ours is a HEAD, whose answer would have a length without a name
        try:
            super()._initialize_content_length(headers)
        except ProtocolError as broken:
            raise MalformedMessage(str(broken)) from broken

    def _track_content_length(self, length: int, end_stream: bool) -> None:
        if self._expected_content_length is None:
            return
        try:
            super()._track_content_length(length, end_stream)
        except InvalidBodyLengthError as broken:
            raise MalformedMessage(str(broken)) from broken

    def _process_received_headers(
        self, headers: Iterable[Any], header_validation_flags: Any, header_encoding: Any
    ) -> list[Any]:
        known = headers if type(headers) is Fields else None
        if known is not None and (checked := known.checked.get(header_validation_flags)):
            return checked
        try:
            fields = super()._process_received_headers(
                headers, header_validation_flags, header_encoding
            )
        except ProtocolError as broken:
            raise MalformedMessage(str(broken)) from broken
        for name, value in fields:
            if name == _AUTHORITY and (not value or b"@" in value):
                raise MalformedMessage(":authority is empty or contains user information")
        if known is None:
            return fields
        checked = known.checked[header_validation_flags] = Fields(fields)
        return checked
