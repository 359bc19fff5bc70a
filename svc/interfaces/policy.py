"""The seam of the policy: one question, one answer.

An engine is immutable: it stands for one policy version and one revision of
the entities.  Who holds one swaps it whole for the next.
"""

from __future__ import annotations

from collections.abc import Mapping

from zope.interface import Attribute, Interface

from svc.model.policy.access import AccessRequest, Decision, Entity


class IPolicyEngine(Interface):
    """Answers access requests from memory."""

    version: int = Attribute("The version of the policy text this engine was made from.")
    revision: int = Attribute("The revision of the entities this engine looks at.")
    mark: int = Attribute(
        "Of this engine alone, in this process: what one of another mark decided may differ."
    )
    requestable: frozenset[str] = Attribute("The permits that people may ask for, by ``@id``.")

    def decide(request: AccessRequest) -> Decision:
        """Whether the request is allowed, and by which policies.

        Pure computation, well under a millisecond: called on the reactor for
        every open and every request.  Never raises: whatever is not a clean
        Allow comes back as a decision that does not allow, a failure of the
        evaluation or a malformed request with ``decision == "error"``.
        """

    def may_ever(request: AccessRequest) -> bool:
        """Whether *request* may be allowed once it has further facts than those it states.

        False only where it is denied whatever the other facts of its context are; it may be
        True where it always is.  Never raises.  Pure computation, some 0.1 ms; answers are kept.
        """

    def may_ever_by(request: AccessRequest) -> frozenset[str]:
        """The permits, by ``@id``, by which *request* may be allowed as :meth:`may_ever` says.

        Empty where it is denied whatever the other facts are.  Never raises.
        """

    def reasons() -> Mapping[str, str]:
        """Each policy's ``@reason`` by its ``@id``; for explanations, not on the way of a session.

        Pure computation over all policies.
        """

    def entity_slice(request: AccessRequest) -> tuple[Entity, ...]:
        """The entities that the answer to *request* could depend on.

        Those whose digest is ``Decision.entities_digest``: what is kept once
        beside the audit log so that the decision can be replayed.  Called by
        whoever writes the record, when the digest is new.  Pure computation.
        """
