"""At the Connector: reaches the server, and makes the one edit of requests."""

from collections.abc import Mapping

from attrs import field, frozen

from svc.kinds.opaque import AddressDialer
from svc.model.session.edits import MakeEdit


def refuse(came: bytes, values: Mapping[str, str]) -> bytes:
    """A command that the server answers with an error, in its turn."""
    return b"SVC_DENIED\r\n"


@frozen(kw_only=True)
class RedisDialer(AddressDialer):
    """Plain TCP, and the closed list of edits."""

    edits: Mapping[str, MakeEdit] = field(factory=lambda: {"refuse": refuse})


DIALER = RedisDialer(kind="redis", default_port=6379)
