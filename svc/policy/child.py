"""The process that tries a policy text before any other process parses it.

It does everything its parent will do with the text, under limits of its own:
shape, syntax, names, types, typed nodes, every action's slice, and one
decision.  A text that ends a process ends this one.  Reads one JSON object on
stdin, writes one on stdout; opens nothing else.  Run as the hidden
sub-command ``svc _policy-guard`` or as ``python -m svc.policy.child``.

Where the job brings questions, it also says how the text answers them, so that
nobody else has to evaluate a text that only was proposed.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterable
from typing import Any, BinaryIO, cast

from attrs import asdict

from svc.errors import SvcError
from svc.model.policy.access import (
    AccessRequest,
    Entity,
    EntityUid,
    RequestKind,
    entity_form,
    entity_from_form,
    request_form,
    request_from_form,
)
from svc.model.policy.terms import ActionTerm
from svc.policy.claims import refuse_claims
from svc.policy.compile import compile_policy
from svc.policy.prescan import PolicyLimits
from svc.policy.refusals import REASONS
from svc.policy.terms_json import terms_form, terms_from_form
from svc.policy.trial import answer_form, trial_answer
from svc.policy.vocabulary import Vocabulary, vocabulary_of_terms

MAX_INPUT = 8 * 1024 * 1024
MEMORY = 2 * 1024 * 1024 * 1024
CPU_SECONDS = 20


def job(text: str, vocabulary: Vocabulary, limits: PolicyLimits) -> bytes:
    """What the parent writes to the child's stdin, to have a text tried."""
    return _written(_asked(text, vocabulary, limits))


def questions_job(
    text: str,
    vocabulary: Vocabulary,
    limits: PolicyLimits,
    requests: Iterable[AccessRequest],
    entities: Iterable[Entity],
    *,
    proposed: bool,
) -> bytes:
    """The same, to have requests decided by the text over these entities.

    Args:
        proposed: Whether the text is to be refused for what only a text in force may have.
    """
    return _written(
        {
            **_asked(text, vocabulary, limits),
            "requests": [request_form(request) for request in requests],
            "entities": [entity_form(entity) for entity in entities],
            "proposed": proposed,
        }
    )


def _asked(text: str, vocabulary: Vocabulary, limits: PolicyLimits) -> dict[str, Any]:
    return {"text": text, "terms": terms_form(vocabulary.terms), "limits": asdict(limits)}


def _written(form: dict[str, Any]) -> bytes:
    return json.dumps(form).encode("ascii")


def main() -> int:
    """Run the whole of the process; 0 when an answer was written."""
    confine()
    return answer(sys.stdin.buffer, sys.stdout.buffer)


def confine(cpu_seconds: int = CPU_SECONDS, *, growing: bool = False) -> None:
    """Give up what this process does not need: time, memory, files, core dumps.

    Args:
        growing: Its time is given by :func:`limit_cpu`, again and again.
    """
    if growing:
        limit_cpu(cpu_seconds)
    for what, most in (
        *(() if growing else ((resource.RLIMIT_CPU, cpu_seconds),)),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def limit_cpu(seconds: int) -> None:
    """Let this process take so much time in all, from its start on."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = seconds if hard == resource.RLIM_INFINITY else min(seconds, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def answer(stdin: BinaryIO, stdout: BinaryIO) -> int:
    """Try the text on *stdin*; write ``{}``, the answers or the refusal to *stdout*."""
    data = stdin.read(MAX_INPUT + 1)
    try:
        if len(data) > MAX_INPUT:
            return 2
        asked = json.loads(data)
        words = vocabulary_of_terms(terms_from_form(asked["terms"]))
        limits = PolicyLimits(**asked["limits"])
        try_policy(asked["text"], words, limits)
        outcome: dict[str, Any] = {}
        if "requests" in asked:
            outcome["answers"] = _answers(asked, words, limits)
    except SvcError as refusal:
        outcome = {"reason": refusal.reason, "text": refusal.text}
        if refusal.reason not in REASONS:
            return 2
    stdout.write(json.dumps(outcome).encode("ascii"))
    stdout.flush()
    return 0


def _answers(asked: dict[str, Any], words: Vocabulary, limits: PolicyLimits) -> list[Any]:
    entities = [entity_from_form(form) for form in asked["entities"]]
    engine = compile_policy(asked["text"], words, entities, 0, 0, limits)
    if asked["proposed"]:
        refuse_claims(engine.claims)
    requests = [request_from_form(form) for form in asked["requests"]]
    return [answer_form(trial_answer(engine, request)) for request in requests]


def try_policy(text: str, words: Vocabulary, limits: PolicyLimits) -> None:
    """Do with *text* all that an engine will do with it.

    Raises:
        PolicyRefused: with its reason.
    """
    engine = compile_policy(text, words, (), 0, 0, limits)
    for action in words.terms.actions:
        engine.decide(_probe(action))
    engine.decide_by_all(_probe(words.terms.actions[0]))


def _probe(action: ActionTerm) -> AccessRequest:
    return AccessRequest(
        request_kind=cast(RequestKind, action.request_kind),
        principal=EntityUid(action.principals[0], "probe"),
        action=action.name,
        resource=EntityUid(action.resources[0], "probe"),
    )


if __name__ == "__main__":
    sys.exit(main())
