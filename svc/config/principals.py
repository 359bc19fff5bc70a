"""Principals of the policy, as a configuration names them."""

from __future__ import annotations

import re

from svc.model.ids import is_opaque_id

MAX_BREAK_GLASS = 8
_LOCAL = re.compile(r"local:(?:0|[1-9][0-9]{0,9})\Z")


def principals(texts: list[str]) -> tuple[str, ...]:
    """Ids of people and ``local:<uid>``; raises ValueError for anything else."""
    if len(texts) > MAX_BREAK_GLASS:
        raise ValueError(f"must list at most {MAX_BREAK_GLASS} principals")
    for at, text in enumerate(texts):
        if not (is_opaque_id(text) or _LOCAL.match(text)):
            raise ValueError(
                f"[{at}]: must be the id of a person, as `svc authority persons list` shows it, or "
                "local:<uid>"
            )
    return tuple(texts)
