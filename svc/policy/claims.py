"""Finds policies that read facts which only the client claims.

Some facts of a request are the client's word and nothing more: nothing between
it and the target sees whether they are true.  A permit that rests on one would
let in whoever says the right word, so it has no effect; a forbid can only take
away, so it stays.  A text that is not in force yet is refused instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen
from cedarpy import pst

from svc.policy.reads import reads_of
from svc.policy.refusals import UNENFORCED_FACT, refused
from svc.policy.slices import scope_actions
from svc.policy.vocabulary import Vocabulary


@frozen
class ClaimRead:
    """One policy that reads claims.

    Attributes:
        policy: Its ``@id``.
        is_permit: Whether it is a permit, which has no effect then.
        facts: The claims that it reads, or may read.
    """

    policy: str
    is_permit: bool
    facts: tuple[str, ...]


def claims_read(
    policies: Mapping[str, pst.Template], vocabulary: Vocabulary
) -> tuple[ClaimRead, ...]:
    """The policies that read claims, by their ids."""
    found = ((name, policy, _claims_of(policy, vocabulary)) for name, policy in policies.items())
    return tuple(
        ClaimRead(name, policy.effect == "permit", tuple(sorted(facts)))
        for name, policy, facts in sorted(found, key=lambda one: one[0])
        if facts
    )


def refuse_claims(claims: Iterable[ClaimRead]) -> None:
    """Refuse a proposed text in which any policy reads a claim.

    Raises:
        PolicyRefused: ``policy_unenforced_fact``, naming every such policy.
    """
    read = tuple(claims)
    if not read:
        return
    names = ", ".join(one.policy for one in read)
    facts = ", ".join(f"context.{name}" for name in sorted({f for one in read for f in one.facts}))
    raise refused(
        UNENFORCED_FACT,
        f"{f'policy {names}: reads' if len(read) == 1 else f'policies {names}: read'} {facts}, "
        "which nothing enforces at the target: at most the client claims it, and a client "
        "that claims one thing can do another. Decide by principal, group, resource and time "
        "instead, and limit the accounts at the target itself",
    )


def log_claims(version: int, claims: Iterable[ClaimRead]) -> None:
    """Log which policies in force read claims; called once for each version."""
    # Imported here: the process that tries a text starts for each, and half its start was this.
    from twisted.logger import Logger

    log = Logger(namespace="svc_policy")
    read = tuple(claims)
    for is_permit, text in (
        (True, "permits that read a fact which nothing enforces have no effect"),
        (False, "forbids read a fact which nothing enforces: a client can evade them"),
    ):
        chosen = [one for one in read if one.is_permit == is_permit]
        if chosen:
            log.warn(
                text,
                version=version,
                policies=[one.policy for one in chosen],
                facts=sorted({fact for one in chosen for fact in one.facts}),
                reason=UNENFORCED_FACT,
            )


def _claims_of(policy: pst.Template, vocabulary: Vocabulary) -> frozenset[str]:
    reads = reads_of(policy.clauses)
    if reads is not None:
        return reads & vocabulary.claimed
    actions = scope_actions(policy, vocabulary.members)
    facts = {
        name
        for action, shape in vocabulary.shapes.items()
        if action in actions or None in actions
        for name in shape.facts
    }
    return vocabulary.claimed & facts
