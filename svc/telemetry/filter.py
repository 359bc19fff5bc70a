"""The ``RUST_LOG`` grammar: selects the events that are logged.

``<target>=<level>`` items and a bare level for everything else, separated by
commas.  A target covers every name it begins; the longest that fits wins.  A
malformed filter is refused, never ignored.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from enum import IntEnum

from attrs import field, frozen

from svc.errors import ConfigError

DEFAULT_FILTER = "warn,svc=info"
VARIABLE = "RUST_LOG"
MAX_LENGTH = 4096
_TARGET = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*\Z")


class Level(IntEnum):
    """How much is written; an event passes when its own level is not above."""

    OFF = 0
    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4
    TRACE = 5


@frozen
class LogFilter:
    """A parsed filter.  Asking again for the same target costs one look-up."""

    targets: tuple[tuple[str, Level], ...]
    rest: Level
    _known: dict[str, Level] = field(factory=dict, init=False, eq=False, repr=False)

    def allows(self, target: str, level: Level) -> bool:
        """Whether an event of this target and level is written."""
        return level <= self.threshold(target)

    def threshold(self, target: str) -> Level:
        """The highest level that is written for a target."""
        known = self._known.get(target)
        if known is None:
            known = max(
                (each for each in self.targets if target.startswith(each[0])),
                key=lambda each: len(each[0]),
                default=("", self.rest),
            )[1]
            if len(self._known) < 1024:
                self._known[target] = known
        return known

    @property
    def highest(self) -> Level:
        """The highest level that is written for any target."""
        return max(self.rest, *(level for _, level in self.targets), Level.OFF)


def parse_filter(text: str | None) -> LogFilter:
    """The filter that ``RUST_LOG`` names; absent and empty mean the default.

    Without a bare level every target not named is off.  Of two items for one
    target the later holds.

    Raises:
        ConfigError: naming the item by its place.
    """
    if text is None or not text.strip():
        text = DEFAULT_FILTER
    if len(text) > MAX_LENGTH:
        raise ConfigError(VARIABLE, f"is longer than {MAX_LENGTH} characters")
    targets: dict[str, Level] = {}
    rest = Level.OFF
    for place, item in enumerate(text.split(","), 1):
        target, equals, level = item.strip().partition("=")
        if not equals:
            rest = _level(place, target)
            continue
        if not _TARGET.match(target):
            raise ConfigError(VARIABLE, f"item {place}: is not <target>=<level> or a level")
        targets[target] = _level(place, level)
    return LogFilter(tuple(targets.items()), rest)


def _level(place: int, word: str) -> Level:
    names = [level.name.lower() for level in Level]
    lower = word.strip().lower()
    if lower in names:
        return Level[lower.upper()]
    close = get_close_matches(lower[:32], names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"levels: {', '.join(names)}"
    raise ConfigError(VARIABLE, f"item {place}: unknown level; {hint}")
