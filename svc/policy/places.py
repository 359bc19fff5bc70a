"""Finds the line and column of a fault in a policy text, which Cedar does not report.

A syntax error stands at the first token with which no policy can go on: to a
text that is cut off before it the parser only misses more, one that is cut off
behind it is wrong, so halving finds it.  A fault of meaning stands where its policy begins,
or at what the message quotes from it.  Only texts that passed the guard's
scan come here, or they are in the guard's own process.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

from attrs import field, frozen

from svc.model.policy.access import EntityUid
from svc.policy.prescan import TOKEN

_UNFINISHED = "unexpected end of input"
_QUOTED = re.compile(r"`([^`]+)`|: (\w+)\Z")
_TOKEN_REFUSED = re.compile(rf"unexpected token|invalid token|{_UNFINISHED}")
_END_REFUSED = "unexpected token `;`"
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPACES = re.compile(r"\s+")


@frozen
class Token:
    """A token of the text, without those that say nothing."""

    start: int
    end: int
    text: str


@frozen
class Statement:
    """One policy: its tokens, up to and with the semicolon."""

    tokens: tuple[Token, ...]


def _tokens(text: str) -> tuple[Token, ...]:
    return tuple(
        Token(match.start(), match.end(), match.group())
        for match in TOKEN.finditer(text)
        if match.lastgroup != "skip"
    )


def _statements(tokens: tuple[Token, ...]) -> tuple[Statement, ...]:
    found: list[Statement] = []
    begun: list[Token] = []
    depth = 0
    for token in tokens:
        begun.append(token)
        depth += (token.text in "([{") - (token.text in ")]}") if len(token.text) == 1 else 0
        if token.text == ";" and depth <= 0:
            found.append(Statement(tuple(begun)))
            begun, depth = [], 0
    return tuple([*found, Statement(tuple(begun))] if begun else found)


@frozen
class PolicyLocations:
    """A policy text, in which places are looked for."""

    text: str
    statements: tuple[Statement, ...] = field(init=False)

    @statements.default
    def _split(self) -> tuple[Statement, ...]:
        return _statements(_tokens(self.text))

    def place_at(self, offset: int) -> str:
        """``line 3, column 7``, both from 1."""
        line = self.text.count("\n", 0, offset) + 1
        return f"line {line}, column {offset - self.text.rfind(chr(10), 0, offset)}"

    def policy(self, position: int, message: str = "") -> str:
        """The place of the policy at *position* (from 0), or of what *message* quotes of it."""
        return self.place_at(self.offset(position, message))

    def offset(self, position: int, message: str = "") -> int:
        """Where the policy at *position* (from 0) begins, or what *message* quotes of it."""
        if not 0 <= position < len(self.statements):
            return len(self.text)
        return _quoted(self.statements[position], message)

    def syntax(self, refusal_of: Callable[[str], str]) -> str:
        """The place where the text is no policy any more.

        Args:
            refusal_of: What the parser says of a text; empty where it takes it.
        """
        for statement in self.statements:
            tokens = statement.tokens
            start = tokens[0].start
            refusal = refusal_of(self.text[start : tokens[-1].end])
            if not refusal:
                continue
            if not _TOKEN_REFUSED.search(refusal):
                return self.place_at(_quoted(statement, refusal))

            def is_wrong(end: int, start: int = start) -> bool:
                # What is cut off is unfinished; with an end put to it, the first fault is told.
                fault = refusal_of(f"{self.text[start:end]} ;")
                return bool(_TOKEN_REFUSED.search(fault)) and _END_REFUSED not in fault

            at = bisect_left([token.end for token in tokens], True, key=is_wrong)
            if at < len(tokens):
                return self.place_at(tokens[at].start)
            ends = [token.start for token in tokens if token.text == ";"]
            return self.place_at(ends[0] if _END_REFUSED in refusal else len(self.text.rstrip()))
        return self.place_at(0)


def entities_named(text: str) -> frozenset[EntityUid]:
    """Every entity that the text names, as far as its tokens tell."""
    tokens = _tokens(text)
    found = set()
    for kind, colons, id in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if colons.text == "::" and id.text.startswith('"') and kind.text.isidentifier():
            found.add(EntityUid(kind.text, _ESCAPED.sub(r"\1", id.text[1:-1])))
    return frozenset(found)


def _quoted(statement: Statement, message: str) -> int:
    """Where the statement has what *message* quotes; else where it begins."""
    tokens = statement.tokens
    for quoted in _QUOTED.finditer(message):
        wanted = _SPACES.sub("", quoted[1] or quoted[2])
        for at, token in enumerate(tokens):
            there, length = "", at
            while length < len(tokens) and len(there) < len(wanted):
                there += _SPACES.sub("", tokens[length].text)
                length += 1
            if there == wanted:
                return token.start
    return tokens[0].start
