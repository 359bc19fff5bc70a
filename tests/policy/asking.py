"""Asks a policy text as the guard's child process does, in this process."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

from svc.policy.child import answer, questions_job
from svc.policy.prescan import PolicyLimits
from svc.policy.refusals import refused
from svc.policy.trial import TrialAnswer, answer_from_form
from svc.policy.vocabulary import Vocabulary


async def asked_inline(
    text: str, requests: Any, entities: Any, *, proposed: bool, vocabulary: Vocabulary
) -> tuple[TrialAnswer, ...]:
    """See ``PolicyGuard.ask``."""
    data = questions_job(text, vocabulary, PolicyLimits(), requests, entities, proposed=proposed)
    out = BytesIO()
    assert answer(BytesIO(data), out) == 0
    found = json.loads(out.getvalue())
    if "reason" in found:
        raise refused(found["reason"], found["text"])
    return tuple(map(answer_from_form, found["answers"]))
