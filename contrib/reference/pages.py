"""Every page, by its name: written, or compared with the one there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from contrib.reference import audit, cli, config, metrics, upgrade, vocabulary

PAGES: Mapping[str, Callable[[], str]] = {
    "audit.md": audit.markdown,
    "cli.md": cli.markdown,
    "config.md": config.markdown,
    "metrics.md": metrics.markdown,
    "upgrade.md": upgrade.markdown,
    "vocabulary.md": vocabulary.markdown,
}


def write(directory: Path) -> None:
    """Write each page."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, markdown in PAGES.items():
        (directory / name).write_text(markdown(), encoding="utf-8")


def stale(directory: Path) -> list[str]:
    """The names of the pages that are missing, or not what the code says now."""
    return [
        name
        for name, markdown in PAGES.items()
        if not (directory / name).is_file()
        or (directory / name).read_text(encoding="utf-8") != markdown()
    ]
