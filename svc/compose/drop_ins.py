"""The resource kinds that a configuration enables, and the record of each drop-in (rule R21)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from svc.errors import PluginError
from svc.interfaces.kinds import IResourceKind
from svc.plugin import Loaded, load


@frozen
class Kinds:
    """The kinds the configuration names, by the operator's words, and their records."""

    by_name: Mapping[str, IResourceKind]
    loaded: tuple[Loaded, ...] = field(default=())

    @property
    def records(self) -> list[str]:
        """Name, version and digest of each, for ``role.start`` (R21)."""
        return plugin_records(self.loaded)


def load_kinds(names: Iterable[str]) -> Kinds:
    """Import the named kinds.

    Raises:
        PluginError: naming the word and what is wrong with it; so is a kind that would run
            neither with TLS from person to Connector nor behind a request gate.
    """
    loaded = load(IResourceKind, "kind", names)
    for one in loaded:
        _check_protection(one)
    return Kinds({one.record.name: one.provider for one in loaded}, loaded)  # type: ignore[misc]


def _check_protection(loaded: Loaded) -> None:
    """Refuse a kind that is neither opaque nor gated; this build has no request gates."""
    opaque = getattr(loaded.provider, "opaque", None)
    if opaque is not True:
        record = loaded.record
        raise PluginError(
            f"kind {record.name}: {record.path} says opaque = {ascii(opaque)[:40]} and has no "
            "request gate: its sessions would run without TLS between person and Connector, "
            "and their requests would not be decided; set opaque = True, or take "
            f"{record.name} out of plugins.kinds"
        )


def plugin_records(loaded: Iterable[Loaded]) -> list[str]:
    """``name version sha256`` of each drop-in."""
    return [f"{one.record.name} {one.record.version or '-'} {one.record.sha256}" for one in loaded]
