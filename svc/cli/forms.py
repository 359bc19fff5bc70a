"""Forms of what is typed on the command line; whatever is malformed is a usage error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import click

from svc.telemetry.escape import escaped

_NONE: Mapping[str, str] = MappingProxyType({})
LONGEST_TTL = 7 * 86400


class Word(click.ParamType[str]):
    """A text that is valid Unicode without control characters, and not empty."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Called by click for each value."""
        if not value or not value.isprintable():
            self.fail("must contain printable characters only", param, ctx)
        return value


class Duration(click.ParamType[int]):
    """A length of time: seconds, or a number with ``s``, ``m``, ``h`` or ``d``."""

    name = "time"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Called by click for each value, and for the default."""
        found = re.fullmatch(r"([0-9]{1,9})([smhd]?)", str(value))
        if found is None or not int(found[1]):
            self.fail("must be a length of time, such as 30m or 2h", param, ctx)
        return int(found[1]) * _UNITS[found[2]]


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION = Duration()
WORD = Word()
TTL = click.IntRange(1, LONGEST_TTL)


def labels_of(given: Iterable[str], option: str = "--label") -> dict[str, str]:
    """Labels, or other pairs, from their ``key=value`` forms.

    Raises:
        click.UsageError: for another form, or a key that is given twice.
    """
    found: dict[str, str] = {}
    for text in given:
        key, mark, value = text.partition("=")
        if not mark or not key:
            raise click.UsageError(f"{option} {text!r}: must be of the form key=value")
        if key in found:
            raise click.UsageError(f"{option} {key}: given more than once")
        found[key] = value
    return found


def parameter_pairs(given: Iterable[str], also: Mapping[str, str] = _NONE) -> dict[str, str]:
    """Parameters of a session from their ``NAME=VALUE`` forms, beside those of other options.

    Raises:
        click.UsageError: for another form, or a name that is given twice.
    """
    found = dict(also)
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or name in found:
            raise click.UsageError(
                f"--parameter {escaped(name)}: given twice, or not written NAME=VALUE"
            )
        found[name] = value
    return found


root_key_option = click.option(
    "--root-key",
    type=click.Path(path_type=Path),
    help="Path of the root's private key, if it is not in keys/.",
)
reason_option = click.option("--reason", type=WORD, help="The reason, for the audit record.")
public_name_option = click.option(
    "--public-name",
    "names",
    multiple=True,
    type=WORD,
    metavar="N",
    help="A DNS name or IP address for a Proxy's certificate; may be repeated.",
)
