"""Whether there is anything to ask for: refuses a request that an approval would not change."""

from __future__ import annotations

from svc.errors import Denied, Fault, SvcError
from svc.interfaces.policy import IPolicyEngine
from svc.model.policy.access import AccessRequest
from svc.model.policy.requested import AccessAsk
from svc.policy.requestable import might_turn, would_turn


def require_turned(
    engine: IPolicyEngine, asked: AccessRequest, ask: AccessAsk, *, is_open: bool, ends_at: int
) -> None:
    """Refuse what an approval would not change.

    What a request inside a session does is read at the Proxy, so for one it is enough that an
    approval might.

    Args:
        is_open: Whether it is about opening a session, and not about a request in one.

    Raises:
        Denied: ``not_requestable``; it says so where an approval of one exact text would do.
        SvcError: ``already_allowed``.
    """
    if not ask.text and engine.decide(asked).allowed:
        raise SvcError(
            f"{ask.resource}: you have access already",
            reason="already_allowed",
            fault=Fault.PRECONDITION,
        )
    turn = would_turn if is_open else might_turn
    if turn(engine, asked, ends_at, exact=bool(ask.text)):
        return
    text = f"{ask.resource}: no policy lets anybody approve this"
    if not is_open and might_turn(engine, asked, ends_at, exact=True):
        text = (
            f"{ask.resource}: only one exact request of {asked.action} can be approved; send it, "
            "and within ten minutes type what the denial says: svc request --decision ID; or give "
            "its text: --statement, --statement-file"
        )
    raise Denied(text, reason="not_requestable")
