"""Which personal values of requests are not there, and which of them a record says were erased."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.model.audit.batch import RequestBatch, hidden_paths
from svc.model.audit.events import REQUEST_ERASED


def missing_values(seq: int, batch: RequestBatch) -> list[str]:
    """The personal values that are not beside batch *seq*, by the names that erasing gives them."""
    there = {(one.index, one.path) for one in batch.personal}
    return [
        erased_name(seq, index, path)
        for index, entry in enumerate(batch.entries)
        for path in hidden_paths(entry)
        if (index, path) not in there
    ]


def erased_name(seq: int, index: int, path: str) -> str:
    """How an ``audit.request.erased`` names a value of an entry."""
    return f"{seq}:{index}:{path}"


def erased_values(record: Mapping[str, Any]) -> list[str]:
    """What a record says was erased from entries."""
    if record.get("event") != REQUEST_ERASED.name:
        return []
    details = record.get("details")
    named = details.get("erased") if isinstance(details, Mapping) else None
    return list(named) if isinstance(named, list) else []
