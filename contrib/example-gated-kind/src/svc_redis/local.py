"""At the person's machine: the port, and the edits of answers."""

from collections.abc import Mapping

from attrs import field, frozen

from svc.kinds.opaque import LabelledPort
from svc.model.session.edits import MakeEdit


def denied(came: bytes, values: Mapping[str, str]) -> bytes:
    """The error as Redis words one of its own; a Proxy's text breaks no line."""
    decision, policies = (" ".join(values.get(n, "").split()) for n in ("decision", "policies"))
    options = values.get("command_options", "")
    said = f"denied by {policies or 'policy'}; run `svc why {decision}{options}`"
    return f"-NOPERM {said}\r\n".encode("ascii", "replace")


def unknown(came: bytes, values: Mapping[str, str]) -> bytes:
    """For a command that the gate does not know."""
    return b"-NOPERM only GET and SET pass here\r\n"


@frozen(kw_only=True)
class RedisPorts(LabelledPort):
    """The native port, and the closed list of edits."""

    edits: Mapping[str, MakeEdit] = field(factory=lambda: {"denied": denied, "unknown": unknown})


LOCAL = RedisPorts(default_port=6379)
