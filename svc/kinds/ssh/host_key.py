"""The host key of the gate, and the line by which a person's side learns it.

The line is the first of a session, inside its TLS: so it is the word of the Connector that the
grant names.  SSH lets a server say lines before its own first one, and clients pass over them.
"""

from __future__ import annotations

import re
from typing import Any

from svc.errors import Malformed

GREETING = b"svc-host-key "
LONGEST = 1024
_LINE = re.compile(rb"svc-host-key ([a-z0-9@.-]{1,40} [A-Za-z0-9+/]{1,900}={0,2})\r\n\Z")


def greeting(key: Any) -> bytes:
    """The line that names a key of Conch's."""
    kind, blob, *_ = key.public().toString("OPENSSH").split(b" ")
    return b"%b%b %b\r\n" % (GREETING, kind, blob.strip())


def greeted(line: bytes) -> str:
    """The public key of such a line, as a file of known hosts has it.

    Raises:
        Malformed: it is none.
    """
    found = _LINE.match(line)
    if found is None:
        raise Malformed("the Connector does not begin with the key of its SSH gate")
    return found[1].decode("ascii")
