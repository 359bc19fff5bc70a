"""Forms of what is typed on the command line; whatever is malformed is a usage error."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

LONGEST_TTL = 7 * 86400


class Word(click.ParamType[str]):
    """A text that is valid Unicode without control characters, and not empty."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Called by click for each value."""
        if not value or not value.isprintable():
            self.fail("must contain printable characters only", param, ctx)
        return value


WORD = Word()
TTL = click.IntRange(1, LONGEST_TTL)


def labels_of(given: Iterable[str]) -> dict[str, str]:
    """Labels from their ``key=value`` forms.

    Raises:
        click.UsageError: for another form, or a key that is given twice.
    """
    found: dict[str, str] = {}
    for text in given:
        key, mark, value = text.partition("=")
        if not mark or not key:
            raise click.UsageError(f"--label {text!r}: must be of the form key=value")
        if key in found:
            raise click.UsageError(f"--label {key}: given more than once")
        found[key] = value
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
