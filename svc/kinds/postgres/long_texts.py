"""Texts that are too long for the parser to be given them in a Proxy: read in a child process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from svc.errors import SvcError
from svc.interfaces.gating import IGatedSession
from svc.kinds.postgres.effects import LONGEST, Complaint, NameChange, TextEffects
from svc.kinds.postgres.walk import text_effects

LONGEST_APART = 64 * 1024
"""A text longer than this is read by nobody."""

WORK = "svc.kinds.postgres.long_texts:read"


async def effects_of(session: IGatedSession, text: bytes) -> TextEffects:
    """What a text would do, or why nobody knows, whatever its length."""
    if not LONGEST < len(text) <= LONGEST_APART:
        return text_effects(text)
    try:
        return effects_from_form(json.loads(await session.apart(WORK, text)))
    except (SvcError, ValueError, TypeError, KeyError):
        return TextEffects(incomplete="text_not_read")


def read(text: bytes) -> bytes:
    """The work of the child."""
    return json.dumps(effects_form(text_effects(text, LONGEST_APART))).encode("ascii")


def effects_form(effects: TextEffects) -> dict[str, Any]:
    """As JSON holds it."""
    complaint = effects.complaint
    return {
        "effects": sorted(effects.effects),
        "reads": sorted(effects.reads),
        "writes": sorted(effects.writes),
        "objects": sorted(effects.objects),
        "functions": sorted(effects.functions),
        "incomplete": effects.incomplete,
        "ends_transaction": effects.ends_transaction,
        "executes": sorted(name.decode("utf-8") for name in effects.executes),
        "changes": [
            [one.name.decode("utf-8"), None if one.effects is None else effects_form(one.effects)]
            for one in effects.changes
        ],
        "complaint": None if complaint is None else [complaint.text, complaint.position],
    }


def effects_from_form(form: Mapping[str, Any]) -> TextEffects:
    """From what :func:`effects_form` made.

    Raises:
        ValueError, TypeError or KeyError: it did not.
    """
    complaint = form["complaint"]
    return TextEffects(
        effects=_words(form["effects"]),
        reads=_words(form["reads"]),
        writes=_words(form["writes"]),
        objects=_words(form["objects"]),
        functions=_words(form["functions"]),
        incomplete=str(form["incomplete"]),
        ends_transaction=form["ends_transaction"] is True,
        executes=frozenset(name.encode("utf-8") for name in _words(form["executes"])),
        changes=tuple(
            NameChange(name.encode("utf-8"), None if made is None else effects_from_form(made))
            for name, made in form["changes"]
        ),
        complaint=None if complaint is None else Complaint(str(complaint[0]), int(complaint[1])),
    )


def _words(form: Any) -> frozenset[str]:
    if not isinstance(form, list) or not all(isinstance(one, str) for one in form):
        raise ValueError("no list of words")
    return frozenset(form)
