"""``gate.v1.Identity``: who makes requests in a session, for the session's target."""

from __future__ import annotations

from attrs import frozen

from svc.errors import Malformed
from svc.messages.checks import text
from svc.messages.session import signed_grant, signed_grant_message
from svc.model.signing import Signed
from svc.proto.gate.v1 import identity_pb2 as pb

TOKEN_METHOD = "/gate.v1.Identity/Token"

_MOST_NAME = 128
_MOST_TOKEN = 8 * 1024
"""What any server takes of one header field."""


@frozen
class TokenAsk:
    """What a Connector asks for.

    Attributes:
        grant: Of the session, as Authority signed it.
        named: The name of a person that a request asks to be made as; empty: its own person.
    """

    grant: Signed
    named: str = ""


def token_request(ask: TokenAsk) -> pb.IdentityRequest:
    """As it travels."""
    return pb.IdentityRequest(grant=signed_grant_message(ask.grant), named=ask.named)


def read_token_request(message: pb.IdentityRequest) -> TokenAsk:
    """As it came; the grant is unverified.

    Raises:
        Malformed: it is not of its form.
    """
    return TokenAsk(
        grant=signed_grant(message.grant),
        named=text(message.named, _MOST_NAME, "token request: named", empty=True),
    )


def read_token(message: pb.IdentityResponse) -> bytes:
    """The token that came, as a header field has it.

    Raises:
        Malformed: it is none.
    """
    token = text(message.token, _MOST_TOKEN, "token response: token")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise Malformed("token response: token: not a token in the compact form")
    return token.encode("ascii")
