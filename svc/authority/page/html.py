"""Writes pages: one frame for all, tables, forms; whatever anybody may have named is only text.

Twisted's templates escape what HTML would read.  Control characters, marks that turn the writing
direction and characters that show nothing become visible escapes here (rule R23).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from twisted.web.template import Tag, flattenString, tags

from svc.errors import Malformed
from svc.telemetry.escape import escaped

MOST_TEXT = 300
"""Characters of one text that are shown."""

STYLE = """\
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem; font: 1rem/1.5 sans-serif; }
nav a { margin-right: 1.5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; }
td { border-top: 1px solid #ccc; overflow-wrap: anywhere; }
form { display: inline; }
pre { overflow-x: auto; background: #f4f4f4; padding: .5rem; }
"""

Content = Sequence[Any]
"""Tags and texts, one after the other."""


@frozen
class Link:
    """Where else to look."""

    path: str
    title: str

    def tag(self) -> Tag:
        """The link."""
        return tags.a(self.title, href=self.path)


@frozen
class FormButton:
    """A button that changes something.

    Attributes:
        path: Where it is sent to.
        fields: Hidden, with the token of the form among them.
    """

    path: str
    button: str
    fields: Sequence[tuple[str, str]]

    def tag(self) -> Tag:
        """The form."""
        hidden = [tags.input(type="hidden", name=name, value=value) for name, value in self.fields]
        return tags.form(*hidden, tags.button(self.button), method="post", action=self.path)


def text(value: object, most: int = MOST_TEXT) -> str:
    """A text of anybody's, cut where it is too long, with nothing in it that does not show."""
    whole = str(value)
    cut = whole if len(whole) <= most else f"{whole[:most]}\N{HORIZONTAL ELLIPSIS}"
    return escaped(cut)


def paragraph(*parts: Any) -> Tag:
    """A paragraph of texts and tags."""
    return tags.p(*parts)


def heading(title: str) -> Tag:
    """The heading of a part of a page."""
    return tags.h2(title)


def preformatted(lines: Sequence[str]) -> Tag:
    """Lines as they are; those of a difference are told apart by their beginning."""
    return tags.pre("\n".join(lines))


def code(value: object) -> Tag:
    """A word or a command to type."""
    return tags.code(text(value))


def moment(seconds: float) -> str:
    """A time in UTC to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], otherwise: str) -> Tag:
    """A table, or a sentence where it would have no row."""
    lines = [tags.tr(*(tags.td(cell) for cell in row)) for row in rows]
    if not lines:
        return tags.p(otherwise)
    head = tags.tr(*(tags.th(one) for one in heads))
    return tags.table(tags.thead(head), tags.tbody(*lines))


def older(path: str, label: str, **query: str | int) -> Tag:
    """A link to the next part of a list."""
    return tags.p(Link(f"{path}?{urlencode(query)}", label).tag())


def number_of(given: Mapping[str, str], name: str) -> int:
    """A number of the address; 0 where it is left out.

    Raises:
        Malformed: it is none.
    """
    word = given.get(name, "0")
    if not (word.isascii() and word.isdigit() and len(word) < 10):
        raise Malformed("what the address gives cannot be read")
    return int(word)


async def document(
    title: str, links: Sequence[Link], content: Content, who: tuple[str, str] | None = None
) -> bytes:
    """A whole page.

    Args:
        who: The name of the person whom it is for, and a sentence about them.
    """
    navigation = [one.tag() for one in links]
    head = tags.head(
        tags.meta(charset="utf-8"),
        tags.title(f"{text(title)} \N{EN DASH} svc"),
        tags.link(rel="stylesheet", href="/style.css"),
    )
    top = [tags.nav(*navigation)] if navigation else []
    signed = [tags.p("You are ", tags.strong(text(who[0])), f".  {text(who[1])}")] if who else []
    body = tags.body(*top, tags.h1(text(title)), *signed, *content)
    page: bytes = await flattenString(None, tags.html(head, body, lang="en"))
    return b"<!doctype html>\n" + page + b"\n"
