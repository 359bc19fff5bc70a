"""PostgreSQL's own regression scripts: where they come from, and how psql cuts them into texts.

They are third-party text that the repository does not hold.  The source of pglast, whose version
and hash ``requirements/test.txt`` pins, has them in libpg_query's tests.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

from svc.demo import __file__ as demo
from tests.support.tools import missing

IN_SOURCE = "libpg_query/test/sql/postgres_regress/"
LOCK = Path(demo).parents[2] / "requirements" / "test.txt"
PINNED = re.compile(r"^pglast==[^\\\n]*(?:\\\n[^\\\n]*)*", re.MULTILINE)

_TOKEN = re.compile(
    r"""
      --[^\n]*
    | (?P<comment> /\* )
    | [eE]'(?:[^'\\]|''|\\.)*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | (?P<dollar> \$ (?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)? \$ )
    | [A-Za-z_\x80-\uffff][\w$\x80-\uffff]*
    | (?<![:\[]): (?P<variable> '\w+' | "\w+" | [A-Za-z_]\w* )
    | (?P<joined> \\; )
    | (?P<meta> \\[^\n]* )
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


@cache
def scripts() -> dict[str, str]:
    """Each by its name.

    Raises:
        SkipTest: they are not here and cannot be fetched, with the reason.
    """
    kept = Path(sys.prefix) / f"postgres-regress-{version('pglast')}"
    if not kept.exists():
        _fetch(kept)
    return {one.stem: one.read_text("utf-8", "surrogateescape") for one in kept.glob("*.sql")}


def _fetch(kept: Path) -> None:
    pinned = PINNED.search(LOCK.read_text("utf-8"))
    assert pinned is not None, "the lock has pglast"
    with tempfile.TemporaryDirectory(dir=kept.parent) as place:
        wanted = Path(place, "wanted.txt")
        wanted.write_text(pinned[0], "utf-8")
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes"]
        how = ["--no-binary", "pglast", "--no-build-isolation", "-d", place, "-r", str(wanted)]
        said = subprocess.run([*pip, *how], capture_output=True, text=True, check=False)
        if said.returncode:
            missing(f"PostgreSQL's regression scripts (pglast's source): {said.stderr[-300:]}")
        (archive,) = Path(place).glob("pglast-*.tar.gz")
        found = Path(place, "found")
        found.mkdir()
        with tarfile.open(archive) as source:
            for member in source:
                taken = source.extractfile(member) if IN_SOURCE in member.name else None
                if taken is not None:
                    (found / Path(member.name).name).write_bytes(taken.read())
        found.rename(kept)


def texts(script: str) -> Iterator[str]:
    """The texts that psql would send of it, one for each query; rows for COPY are left out."""
    at, start, depth = 0, 0, 0
    words: list[str] = []
    while at < len(script):
        token = _TOKEN.match(script, at)
        assert token is not None
        word, at = token[0], token.end()
        if token["comment"]:
            at = _after_comment(script, at)
        elif token["dollar"]:
            at = script.find(word, at) + len(word) if word in script[at:] else len(script)
        elif token["joined"]:
            script = f"{script[: at - 2]} ;{script[at:]}"
        elif token["variable"]:
            script = f"{script[: token.start()]} {script[token.start() + 1 :]}"
        elif token["meta"]:
            # Where it follows a text, it sends that (\gset, \gexec) or shows or resets it.
            if script[start : token.start()].strip():
                yield script[start : token.start()]
            start, depth, words = at, 0, []
        elif word in "()":
            depth += 1 if word == "(" else -1
        elif word.strip() and not word.startswith("--") and word != ";":
            words.append(word.upper())
        if word == ";" and depth <= 0 and not _is_in_body(words):
            yield script[start:at]
            if words[:1] == ["COPY"] and "STDIN" in words:
                end = re.compile(r"^\\\.[^\n]*$", re.MULTILINE).search(script, at)
                at = end.end() if end else at
            start, depth, words = at, 0, []


def _after_comment(script: str, at: int) -> int:
    """Where a comment ends that has begun; they nest."""
    depth = 1
    for edge in re.compile(r"/\*|\*/").finditer(script, at):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    return len(script)


def _is_in_body(words: list[str]) -> bool:
    """Whether a semicolon stands in the body of a function that is written as SQL."""
    if words[:1] != ["CREATE"] or "ATOMIC" not in words:
        return False
    body = words[words.index("ATOMIC") - 1 :]
    return body.count("BEGIN") + body.count("CASE") > body.count("END")
