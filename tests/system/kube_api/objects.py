"""The objects of the small API server, and everything that happened to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from threading import Condition
from typing import Any

from attrs import define, field

Object = dict[str, Any]

KINDS = {
    "namespaces": ("Namespace", "namespace", "ns"),
    "pods": ("Pod", "pod", "po"),
    "secrets": ("Secret", "secret", "sec"),
    "configmaps": ("ConfigMap", "configmap", "cm"),
    "services": ("Service", "service", "svc"),
}
"""Resources, each with its kind, its singular name and its short one."""

_LOOKS_EVERY = 0.05
"""Seconds between two looks at whether a client has left its watch."""

_COLUMNS = [
    {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
    {"name": "Status", "type": "string", "format": "", "description": "", "priority": 0},
]


def of_v1(kind: str, **more: Any) -> Object:
    """An object of the API's core."""
    return {"kind": kind, "apiVersion": "v1", **more}


def pod(name: str) -> Object:
    """A pod as far as kubectl shows it."""
    return of_v1(
        "Pod",
        metadata={"name": name, "namespace": "shop", "uid": name},
        spec={"containers": [{"name": "shop", "image": "shop", "stdin": True}]},
        status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    )


def table(objects: list[Object], version: str) -> Object:
    """What kubectl prints as it is."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": _COLUMNS,
        "rows": [
            {
                "cells": [one["metadata"]["name"], one.get("status", {}).get("phase", "Active")],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": one["metadata"],
                },
            }
            for one in objects
        ],
    }


def merged(old: Any, patch: Any) -> Any:
    """A JSON merge patch applied (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = merged(kept.get(name), value)
    return kept


@define(eq=False)
class Objects:
    """All objects, by the path of their collection and their name."""

    _kept: dict[tuple[str, str], Object] = field(factory=dict, init=False)
    _log: list[tuple[str, str, Object]] = field(factory=list, init=False)
    _changed: Condition = field(factory=Condition, init=False)

    @property
    def version(self) -> str:
        """Of the newest change."""
        return str(len(self._log))

    def get(self, collection: str, name: str) -> Object | None:
        """One object, or None."""
        return self._kept.get((collection, name))

    def listed(self, collection: str) -> list[Object]:
        """Those of one collection."""
        return [one for (where, _), one in self._kept.items() if where == collection]

    def put(self, collection: str, new: Object) -> Object:
        """Create or replace one."""
        with self._changed:
            key = collection, new["metadata"]["name"]
            sort = "MODIFIED" if key in self._kept else "ADDED"
            kept = deepcopy(new)
            kept["metadata"].update(uid=key[1], resourceVersion=str(len(self._log) + 1))
            self._kept[key] = kept
            self._happened(sort, collection, kept)
            return kept

    def delete(self, collection: str, name: str) -> Object | None:
        """Remove one."""
        with self._changed:
            gone = self._kept.pop((collection, name), None)
            if gone is not None:
                self._happened("DELETED", collection, gone)
            return gone

    def watched(
        self, collection: str, since: int, seconds: float, has_left: Callable[[], bool]
    ) -> Iterator[tuple[str, Object]]:
        """What happens to a collection after a version, until nothing does for so long."""
        at, ends = since, time.monotonic() + seconds
        while time.monotonic() < ends and not has_left():
            with self._changed:
                if not self._changed.wait_for(lambda at=at: len(self._log) > at, _LOOKS_EVERY):  # type: ignore[misc]
                    continue
                news, at = self._log[at:], len(self._log)
            ends = time.monotonic() + seconds
            for sort, where, one in news:
                if where == collection:
                    yield sort, one

    def _happened(self, sort: str, collection: str, one: Object) -> None:
        self._log.append((sort, collection, deepcopy(one)))
        self._changed.notify_all()
