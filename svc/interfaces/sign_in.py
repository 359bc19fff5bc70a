"""The facet of people's sign-ins at an identity provider."""

from __future__ import annotations

from zope.interface import Interface

from svc.model.cluster.sign_in import IdentityLink, SignIn


class ISignIns(Interface):
    """Who people are at a provider, and their sign-ins."""

    def link(link: IdentityLink) -> None:
        """Add a link.  Raises AlreadyExists: the id, or issuer and subject, are taken."""

    def identity(link_id: str) -> IdentityLink | None:
        """One link."""

    def of(issuer: str, subject: str) -> IdentityLink | None:
        """The link of somebody of a provider."""

    def identities() -> tuple[IdentityLink, ...]:
        """Every link, by id."""

    def put(sign_in: SignIn) -> None:
        """Keep a sign-in, in the place of the row of its id if there is one."""

    def get(sign_in_id: str) -> SignIn | None:
        """One sign-in, also when ended."""

    def unlink(link_id: str) -> tuple[SignIn, ...]:
        """Remove a link, and the sign-ins that came by it; these, by id."""

    def unexpired(at: float) -> tuple[SignIn, ...]:
        """Every sign-in that has not expired at *at*, ended ones included, by id."""
