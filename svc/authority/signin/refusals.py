"""How a sign-in is refused: the classes of refusal; each carries its own reason word."""

from __future__ import annotations

import re

from svc.errors import Fault, SvcError

_SAFE = re.compile(r"[\x20-\x21\x23-\x5b\x5d-\x7e]{1,200}\Z")


class SignInRefused(SvcError):
    """Somebody is not signed in; ``reason`` says why."""

    fault = Fault.DENIED
    reason = "sign_in_refused"


class ProviderFault(SvcError):
    """The identity provider was not reached, or does not answer as it must."""

    fault = Fault.UNAVAILABLE
    reason = "provider_unreachable"


def printable(text: object) -> str:
    """A word of the provider's, if it can be shown as it is; else nothing of it."""
    return text if isinstance(text, str) and _SAFE.match(text) else ""
