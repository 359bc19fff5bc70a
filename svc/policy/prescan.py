"""Measures how deeply a policy text nests, from its tokens alone.

Cedar's parser recurses: a text that nests too deep ends the process it is
parsed in, and so does one long flat chain of operators.  This scan comes
before the parser sees a byte; it recurses nowhere and takes time in
proportion to the text.  It is the first line only: what it lets through goes
to a child process before it comes here (``svc.policy.guard``).
"""

from __future__ import annotations

import re

from attrs import define, frozen

from svc.policy.refusals import TOO_DEEP, TOO_LARGE, refused

TOKEN = re.compile(
    r"""
    (?P<skip>\s+|//[^\n]*)
  | (?P<text>"(?:[^"\\]|\\.)*")
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<join>&&|\|\|)
  | (?P<cut>[,;])
  | (?P<operator>::|==|!=|<=|>=|[.<>!+*-])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_JOINING_WORDS = frozenset({"if", "when", "unless"})
_OPERATOR_WORDS = frozenset({"in", "has", "like", "is"})
_PASSED = frozenset({"skip", "text", "other"})
_OPENS_INDEX = "["


@frozen
class PolicyLimits:
    """The largest policy that is accepted.

    Args:
        bytes: The text in UTF-8.
        policies: How many of them.
        depth: Levels of nesting, a flat chain counting one a link.  Cedar's
            typed nodes end at 100 by themselves.
    """

    bytes: int = 256 * 1024
    policies: int = 5_000
    depth: int = 200


@define
class _Level:
    """One open bracket: the chain being read, its terms, and finished chains."""

    joins: int = 0
    term: int = 0
    deepest_term: int = 0
    deepest_chain: int = 0

    @property
    def depth(self) -> int:
        """Levels below this bracket, as far as it was read."""
        return max(self.deepest_chain, self.joins + max(self.deepest_term, self.term))

    def join(self) -> None:
        """One more link; the next term begins."""
        self.deepest_term = max(self.deepest_term, self.term)
        self.term = 0
        self.joins += 1

    def cut(self) -> None:
        """The chain ends here, another may follow in the same bracket."""
        self.deepest_chain = self.depth
        self.joins = self.term = self.deepest_term = 0


def check_size(text: str, limits: PolicyLimits) -> None:
    """Refuse a text longer than the limit; costs no copy of a huge one.

    Raises:
        PolicyRefused: ``policy_too_large``.
    """
    if len(text) > limits.bytes or len(text.encode("utf-8", "surrogatepass")) > limits.bytes:
        raise refused(TOO_LARGE, f"policy: longer than {limits.bytes} bytes")


def check_shape(text: str, limits: PolicyLimits) -> None:
    """Refuse a text that is too long, too deep, or of too many policies.

    Raises:
        PolicyRefused: ``policy_too_large`` or ``policy_too_deep``, with the
            line where it became too much.
    """
    check_size(text, limits)
    levels = [_Level()]
    policies = 0
    for match in TOKEN.finditer(text):
        sort, token = match.lastgroup, match.group()
        level = levels[-1]
        if sort in _PASSED:
            continue
        if sort == "open":
            # An index or a call hangs on what stands before it: one level more.
            level.term += 1 if token == _OPENS_INDEX else 0
            levels.append(_Level())
        elif sort == "close":
            _close(levels)
        elif sort == "cut":
            level.cut()
            if token == ";" and len(levels) == 1:
                levels = [_Level()]
                policies += 1
        elif sort == "join" or token in _JOINING_WORDS:
            level.join()
        elif sort == "operator" or token in _OPERATOR_WORDS:
            level.term += 1
        if len(levels) > limits.depth or levels[-1].depth > limits.depth:
            line = text.count("\n", 0, match.start()) + 1
            raise refused(
                TOO_DEEP, f"policy: line {line}: it nests deeper than {limits.depth} levels"
            )
        if policies > limits.policies:
            raise refused(TOO_LARGE, f"policy: more than {limits.policies} policies")


def _close(levels: list[_Level]) -> None:
    """Hand the depth of the innermost bracket to the term that holds it."""
    if len(levels) > 1:  # a stray bracket is the parser's to refuse
        inner = levels.pop().depth
        levels[-1].term += inner + 1
