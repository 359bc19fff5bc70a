"""One web application, the board, and the Proxy's gate before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.compose.drop_ins import KindSide, load_kinds
from svc.errors import SvcError
from svc.model.audit.decision_ids import DecisionIds
from svc.model.session.request import SessionRequest
from svc.policy.compile import compile_policy
from svc.policy.engine import CompiledPolicy
from svc.policy.entities import Facts, ResourceFacts, entities_of
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import vocabulary
from svc.proxy.sessions.gate import Gate

WEB = load_kinds(["web"], KindSide.GATE).by_name["web"]
BOARD = ResourceFacts("board", "WebApp", "web")
REQUEST = SessionRequest(
    cluster="gate.example",
    session_uid="1" * 32,
    resource="board",
    kind="web",
    action="webConnect",
    proxy_id="p" * 26,
    issued_at_ms=1000,
    certificate_sha256=bytes(32),
    half=bytes(32),
)


def board_policy(text: str, facts: tuple[Facts, ...]) -> CompiledPolicy:
    """A policy over the board and these facts."""
    words = vocabulary(kind_terms(WEB.terms))
    return compile_policy(text, words, entities_of(facts, "gate.example"), 1, 1)


def board_gate(
    engine: Callable[[], Any],
    now: Callable[[], float],
    on_decision: Callable[[str, str], object] = lambda kind, word: None,
) -> Gate:
    """Decides requests to the board."""
    return Gate(
        engine=engine,
        kinds={"web": WEB},
        now=now,
        entropy=bytes,
        on_decision=on_decision,
        request_ids=DecisionIds("p" * 26, now, bytes),
        apart=_apart,
    )


async def _apart(work: str, data: bytes, person: str) -> bytes:
    raise SvcError("no kind here has such work", reason="apart_failed")
