"""Makes policies that say what could be allowed at all, where only some facts are known.

A session's grant states which sorts of requests its Connector may let pass (rule R27).  When it is
made, nobody knows the requests.  So each policy is replaced by one that looks at the known facts
alone: a permit that holds wherever the original might, a forbid that holds only where the
original must.  What these do not allow, the originals do not allow either, whatever the other
facts turn out to be.

An expression is kept if it reads no unknown fact.  Otherwise ``&&``, ``||``, ``!`` and
``if`` are taken apart, and what is left becomes ``true`` or ``false``: whichever errs on the right
side, which ``!`` turns round.
"""

from __future__ import annotations

from typing import Any, Final

from cedarpy import pst

from svc.policy.reads import reads_of

_AND: Final = "and"
_OR: Final = "or"
_NOT: Final = "not"


def over_known(policy: pst.Template, known: frozenset[str]) -> pst.Template:
    """The policy in which nothing but these facts of the context is looked at."""
    is_permit = policy.effect == "permit"
    clauses = tuple(_clause(clause, known, is_permit) for clause in policy.clauses)
    return pst.Template(
        id=policy.id,
        effect=policy.effect,
        principal=policy.principal,
        action=policy.action,
        resource=policy.resource,
        clauses=clauses,
        annotations=policy.annotations,
    )


def _clause(clause: Any, known: frozenset[str], is_permit: bool) -> Any:
    if isinstance(clause, pst.Unless):
        return pst.Unless(_erring(clause.expr, known, to=not is_permit))
    return pst.When(_erring(clause.expr, known, to=is_permit))


def _erring(node: Any, known: frozenset[str], *, to: bool) -> Any:
    """*node* without unknown facts; where its value depends on one, it is *to*."""
    read = reads_of(node)
    if read is not None and read <= known:
        return node
    if isinstance(node, pst.BinaryOp) and node.op in (_AND, _OR):
        left, right = _erring(node.left, known, to=to), _erring(node.right, known, to=to)
        return pst.BinaryOp(op=node.op, left=left, right=right)
    if isinstance(node, pst.UnaryOp) and node.op == _NOT:
        return pst.UnaryOp(op=_NOT, arg=_erring(node.arg, known, to=not to))
    if isinstance(node, pst.IfThenElse):
        then, otherwise = (_erring(part, known, to=to) for part in (node.then_expr, node.else_expr))
        asked = reads_of(node.cond)
        if asked is not None and asked <= known:
            return pst.IfThenElse(cond=node.cond, then_expr=then, else_expr=otherwise)
        return pst.BinaryOp(op=_OR if to else _AND, left=then, right=otherwise)
    return pst.BoolLit(to)
