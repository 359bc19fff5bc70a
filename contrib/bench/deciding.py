"""One decision of the policy engine, beside bare Cedar asked the same with every policy.

*New pair* is a question whose principal and resource this engine was never
asked about, as when a session opens: slice, digest of the entities and
evaluation are all made for it.  *New facts* is one about a pair it knows, with
facts it does not, as for a request inside a session.  *Asked before* is
answered from what it remembers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from statistics import median

from attrs import frozen
from cedarpy import Entities, PolicySet, Schema, is_authorized

from contrib.bench.rows import Goal, Row, less_is_better
from svc.model.policy.access import AccessRequest, Entity, EntityUid
from svc.policy.compile import compile_policy
from svc.policy.engine import CompiledPolicy
from svc.policy.entities import (
    Facts,
    GroupFacts,
    PersonFacts,
    ResourceFacts,
    cedar_json,
    entities_of,
)
from svc.policy.vocabulary import vocabulary

_QUESTIONS = 2_000
_BARE_SECS = 0.5
"""Bare Cedar is asked for so long: it may need milliseconds for each."""

_UNCACHED, _CACHED = Goal(value=50), Goal(value=5)


@frozen
class Size:
    """How much there is to decide over: about five policies speak of each group."""

    policies: int
    entities: int

    @property
    def named_groups(self) -> int:
        """Groups that policies speak of."""
        return max(1, self.policies // 5)

    @property
    def groups(self) -> int:
        """Those of them that exist, and have members."""
        return min(self.named_groups, max(1, self.entities // 5))

    @property
    def others(self) -> int:
        """People, and as many services."""
        return (self.entities - 1 - self.groups) // 2


def rows() -> list[Row]:
    """Each number of policies with each number of entities."""
    found = []
    for policies in (1, 100, 1_000):
        for entities in (10, 10_000):
            found += _of(Size(policies, entities))
    return found


def _of(size: Size) -> list[Row]:
    words, entities, text = vocabulary(), _entities(size), _text(size)
    engine = compile_policy(text, words, entities, 1)
    bare = PolicySet.from_str(text)
    handle = Entities.from_json_str(cedar_json(entities), Schema.from_str(words.schema))
    pair, facts, known = _asked(engine, entities, size)
    peer = median(_times(lambda one: _bare(one, bare, handle), _pairs(size), _BARE_SECS))
    name = f"decision, {size.policies} policies, {size.entities} entities"
    cedar = "Cedar with all policies"
    return [
        less_is_better(f"{name}, new pair", pair, "µs", cedar, peer),
        less_is_better(f"{name}, new facts", facts, "µs", cedar, peer, _UNCACHED),
        less_is_better(f"{name}, asked before", known, "µs", cedar, peer, _CACHED),
    ]


def _asked(
    engine: CompiledPolicy, entities: Sequence[Entity], size: Size
) -> tuple[float, float, float]:
    """Median microseconds of new pairs, of the same with other facts, and of those once more.

    Where there are fewer pairs than questions, another engine over the same
    entities is asked: it knows none of them.
    """
    took: tuple[list[float], list[float], list[float]] = ([], [], [])
    while len(took[0]) < _QUESTIONS:
        if took[0]:
            engine = engine.with_entities(entities, len(took[0]))
        for asked, hour in zip(took, (9, 10, 10), strict=True):
            asked += _times(engine.decide, list(_pairs(size, hour)))
    pair, facts, known = map(median, took)
    return pair, facts, known


def _times(
    ask: Callable[[AccessRequest], object],
    requests: Iterable[AccessRequest],
    seconds: float = 60.0,
) -> list[float]:
    """Microseconds of each question."""
    took: list[float] = []
    end = time.perf_counter() + seconds
    for request in requests:
        began = time.perf_counter()
        ask(request)
        ended = time.perf_counter()
        took.append((ended - began) * 1e6)
        if ended > end:
            break
    return took


def _pairs(size: Size, hour: int = 9) -> Iterator[AccessRequest]:
    """Persons with services, no pair twice, in no order."""
    count = size.others
    for pair in Random(1).sample(range(count * count), min(count * count, _QUESTIONS)):
        person, service = divmod(pair, count)
        yield AccessRequest(
            request_kind="connect",
            principal=EntityUid("User", f"u{person}"),
            action="tcpConnect",
            resource=EntityUid("TcpService", f"s{service}"),
            context={
                "hour": hour,
                "weekday": 3,
                "now": 1_900_000_000,
                "mfa_age_seconds": 60,
                "proxy_reported": {"source_address": "192.0.2.7"},
            },
        )


def _entities(size: Size) -> tuple[Entity, ...]:
    groups, others = size.groups, size.others
    facts: list[Facts] = [GroupFacts(f"g{n}") for n in range(groups)]
    for n in range(others):
        facts.append(PersonFacts(f"u{n}", f"name{n}", (f"g{n % groups}", f"g{n * 7 % groups}")))
        labels = {"env": ("prod", "test")[n % 2], "team": f"t{n % groups}"}
        facts.append(ResourceFacts(id=f"s{n}", entity_type="TcpService", kind="tcp", labels=labels))
    return entities_of(facts, "bench.example")


def _text(size: Size) -> str:
    """Policies as operators write them: a group, an action, a label, now and then the time."""
    return "\n".join(_policy(n, size.named_groups) for n in range(size.policies))


def _policy(n: int, groups: int) -> str:
    if n % 10 == 9:
        head = f'forbid (principal in Group::"g{n % groups}", action, resource is TcpService)'
        return f'@id("p{n}") {head} when {{ resource.hasTag("closed") }};'
    head = (
        f'permit (principal in Group::"g{n % groups}", action == Action::"tcpConnect", '
        "resource is TcpService)"
    )
    condition = (
        "context has hour && context.hour >= 7",
        f'resource.hasTag("team") && resource.getTag("team") == "t{n % groups}"',
        'resource.hasTag("env") && resource.getTag("env") == "test"',
    )[n % 3]
    return f'@id("p{n}") {head} when {{ {condition} }};'


def _bare(request: AccessRequest, policies: PolicySet, entities: Entities) -> object:
    context = dict(request.context)
    context["proxy_reported"] = {
        "source_address": {"__extn": {"fn": "ip", "arg": "192.0.2.7"}},
    }
    return is_authorized(
        {
            "principal": request.principal.form(),
            "action": {"type": "Action", "id": request.action},
            "resource": request.resource.form(),
            "context": context,
        },
        policies,
        entities,
    )
