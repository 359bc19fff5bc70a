"""What a person requests for a session besides its resource: names and texts (rule R28).

Pure.  A kind declares which it takes.  Nothing is ever made to fit: a value is
taken byte for byte as it was signed, or refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from attrs import frozen

from svc.errors import Malformed

MAX_PARAMETERS = 16
MAX_VALUE_BYTES = 255

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}\Z")


@frozen(kw_only=True)
class Parameter:
    """One thing that may be asked for with a session of a kind; its value is a text.

    Attributes:
        form: A regular expression that the whole value must match.
        fact: How it is kept in the audit log, ``public`` or ``personal``, if policies
            may read it, by its name, as a fact of every request of the session;
            empty: no policy can.
        enforced: Whether the kind's dialer holds the session to it; then it is part of
            the grant's ceiling.  Otherwise it is the client's claim, and no policy
            can rest on it.
        default: What is meant where nobody asks.  An enforced one without a default
            must be asked for.
    """

    form: str = ".*"
    fact: Literal["", "public", "personal"] = ""
    enforced: bool = False
    default: str | None = None

    def fault_of(self, value: str) -> str:
        """What is wrong with a value of it; empty if nothing is."""
        if re.fullmatch(self.form, value) is None:
            return f"does not have the form {self.form}"
        return fault_of(value)


Parameters = Mapping[str, Parameter]
"""What a kind takes, by name."""


def is_name(name: str) -> bool:
    """Whether *name* can be one of a parameter."""
    return _NAME.match(name) is not None


def read_pairs(pairs: Iterable[tuple[str, str]], what: str) -> dict[str, str]:
    """Names and values as they travel: few, well formed, in strictly ascending order.

    Raises:
        Malformed: ``bad_parameter``.
    """
    found: dict[str, str] = {}
    last = ""
    for name, value in pairs:
        if len(found) >= MAX_PARAMETERS:
            raise _bad(f"{what}: more than {MAX_PARAMETERS}")
        if not is_name(name):
            raise _bad(f"{what}: a parameter's name is malformed")
        if name <= last:
            raise _bad(f"{what}: {name}: it is out of order or appears twice")
        fault = fault_of(value)
        if fault:
            raise _bad(f"{what}: {name}: {fault}")
        found[name], last = value, name
    return found


def fault_of(value: str) -> str:
    """What is wrong with a value, whatever its kind; empty if nothing is."""
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not Unicode text"
    if not value:
        return "is empty; leave it out instead"
    if size > MAX_VALUE_BYTES:
        return f"is longer than {MAX_VALUE_BYTES} bytes"
    if value != value.strip():
        return "starts or ends with a space"
    if not value.isprintable():
        return "contains a control character or an invisible character"
    if not unicodedata.is_normalized("NFC", value):
        return "is not in Unicode's normal form NFC"
    return ""


def resolved(known: Parameters, given: Mapping[str, str], kind: str) -> dict[str, str]:
    """All that a session of *kind* is asked for with: what was given, then the defaults.

    Authority, Proxy, Connector and client each put the request to this.

    Raises:
        Malformed: ``unknown_parameter``, ``bad_parameter`` or ``missing_parameter``;
            names what is wrong, never the value.
    """
    for name, value in given.items():
        declared = known.get(name)
        if declared is None:
            takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            shown = name if is_name(name) else "so named"
            raise Malformed(
                f"{kind} takes no parameter {shown}; {takes}", reason="unknown_parameter"
            )
        fault = declared.fault_of(value)
        if fault:
            raise _bad(f"{kind}: parameter {name}: {fault}")
    found = dict(given)
    for name, declared in known.items():
        if name not in found and declared.default is not None:
            found[name] = declared.default
        elif name not in found and declared.enforced:
            raise Malformed(
                f"{kind}: parameter {name} must be given: it has no default",
                reason="missing_parameter",
            )
    return found


def facts(known: Parameters, asked: Mapping[str, str]) -> dict[str, str]:
    """Those that policies may read."""
    return {name: value for name, value in asked.items() if known[name].fact}


def ceiling(known: Parameters, asked: Mapping[str, str]) -> dict[str, str]:
    """Those that the Connector holds the session to."""
    return {name: value for name, value in asked.items() if known[name].enforced}


@frozen
class AskedParameters:
    """What one session of a kind is asked for with.

    Attributes:
        all: What was given, then the kind's defaults.
        facts: Those of them that policies may read.
        ceiling: Those that the Connector holds the session to.
    """

    all: Mapping[str, str]
    facts: Mapping[str, str]
    ceiling: Mapping[str, str]


NOTHING_ASKED = AskedParameters(
    all=MappingProxyType({}), facts=MappingProxyType({}), ceiling=MappingProxyType({})
)
"""What a session of a kind is asked for with that takes no parameters."""


def asked_with(known: Parameters, given: Mapping[str, str], kind: str) -> AskedParameters:
    """All that a session of *kind* is asked for with; raises as :func:`resolved`."""
    found = resolved(known, given, kind)
    return AskedParameters(all=found, facts=facts(known, found), ceiling=ceiling(known, found))


def _bad(text: str) -> Malformed:
    return Malformed(text, reason="bad_parameter")
