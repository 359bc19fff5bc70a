"""The form of a name that browsers reach."""

from __future__ import annotations

import re

from svc.config.forms import Form, parse_address
from svc.config.values import Address

_HTTPS = "443"
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def _public_name(text: str) -> Address:
    """A name, spelled as the origin of its pages has it."""
    host, _, port = text.partition(":")
    labels = host.split(".")
    # Browsers make no passkey for an address.
    if not all(map(_LABEL.fullmatch, labels)) or labels[-1].isdigit() or len(host) > 253:
        raise ValueError("must be a DNS name in lower case, such as sign-in.example.org")
    return parse_address(text if port else f"{host}:{_HTTPS}")


PUBLIC_NAME = Form("a DNS name, or name:port (a string)", str, _public_name)
