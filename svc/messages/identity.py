"""``gate.v1.Identity``: who makes requests in a session, for the session's target."""

from __future__ import annotations

from attrs import frozen

from svc.errors import Malformed
from svc.messages.forms import FieldTable, MessageForm, part, word
from svc.messages.gated import SIGNED_GRANT
from svc.model.signing import Signed
from svc.proto.gate.v1 import identity_pb2 as pb

TOKEN_METHOD = "/gate.v1.Identity/Token"

_MOST_NAME = 128
_TOKEN = FieldTable("token response", token=word(8 * 1024))
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


_ASK = MessageForm(
    pb.IdentityRequest,
    TokenAsk,
    "token request",
    grant=part(SIGNED_GRANT),
    named=word(_MOST_NAME, empty=True),
)
token_request, read_token_request = _ASK.message, _ASK.read
"""As it travels, and as it came: the grant is unverified."""


def read_token(message: pb.IdentityResponse) -> bytes:
    """The token that came, as a header field has it.

    Raises:
        Malformed: it is none.
    """
    token: str = _TOKEN.read_fields(message)["token"]
    if not token.isascii() or not token.isprintable() or " " in token:
        raise Malformed("token response: token: not a token in the compact form")
    return token.encode("ascii")
