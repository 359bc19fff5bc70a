"""What a resident and the helper say: one JSON object and a line end, from each of them.

``{"ask": "network"}`` is answered ``{"network": "127.72.4.0/22"}``; ``{"ask": "bind", "address":
..., "port": ...}`` comes with a socket, and is answered ``{"bound": true}``.  A refusal is
``{"error": {"reason": ..., "text": ...}}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from svc.errors import Malformed

MAX_QUESTION = 256
MAX_ANSWER = 2048
NETWORK, BIND = "network", "bind"
ADDRESS_IN_USE, NOT_YOURS = "address_in_use", "address_not_yours"


def read(line: bytes) -> dict[str, Any]:
    """The object on a line.

    Raises:
        Malformed: it is none.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise Malformed("svc-client-net: the line is not JSON") from None
    if not isinstance(found, dict):
        raise Malformed("svc-client-net: the line is not a JSON object")
    return found


def written(said: Mapping[str, Any]) -> bytes:
    """The line of an object, without its end."""
    return json.dumps(said).encode("ascii")
