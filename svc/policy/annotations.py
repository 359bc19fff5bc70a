"""Reads the ``@reason`` of each policy from a text by its tokens alone.

For a version that is no longer in force, whose reasons are all that is wanted of it: nothing here
calls Cedar's parser, so the text needs no child process (rule R37), and a text that fits today's
vocabulary no more can still be read.  For texts that were in force, which Cedar has accepted once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_TEXT_OR_COMMENT = re.compile(rf"{_STRING}|//[^\n]*", re.DOTALL)
_PART = re.compile(
    rf"""
    @\s*(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*(?:\(\s*(?P<value>{_STRING})\s*\))?
  | (?P<end>;)
  | {_STRING}
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|x([0-7][0-9A-Fa-f])|(.))", re.DOTALL)
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_LAST_CODE_POINT = 0x10FFFF


def annotated_reasons(text: str) -> Mapping[str, str]:
    """The ``@reason`` of each policy that has one, by its ``@id``."""
    found: dict[str, str] = {}
    named: dict[str, str] = {}
    for part in _PART.finditer(_TEXT_OR_COMMENT.sub(_without_comment, text)):
        if part["end"]:
            name, reason = named.get("id", ""), named.get("reason", "")
            if name and reason:
                found[name] = reason
            named = {}
        elif part["name"]:
            named[part["name"]] = _value((part["value"] or '""')[1:-1])
    return found


def _without_comment(found: re.Match[str]) -> str:
    return " " if found[0].startswith("//") else found[0]


def _value(written: str) -> str:
    """What a string of a policy stands for."""
    return _ESCAPE.sub(_unescaped, written)


def _unescaped(found: re.Match[str]) -> str:
    point = int(found[1] or found[2] or "0", 16)
    if not found[3]:
        return chr(point) if point <= _LAST_CODE_POINT else found[0]
    return _SIMPLE.get(found[3], found[3])
