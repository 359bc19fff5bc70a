"""Whose account an ID token is of, and what it says of its holder; pure.

An account is its issuer and subject, never an e-mail address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from svc.authority.signin.refusals import SignInRefused
from svc.model.ids import is_caller_id, is_member_name

MAX_GROUPS = 1000
_MAX_GROUP = 256
_SEVERAL_FACTORS = "http://schemas.openid.net/pape/policies/2007/06/multi-factor"
"""The value of ``acr`` that means several factors wherever it is used: of OpenID's PAPE.

``phr`` and ``phrh`` of OpenID's EAP are none: they mean that nobody can phish it, and where the key
is, not how many factors there were.
"""


@frozen
class Account:
    """A verified account.

    Attributes:
        auth_time: When its holder proved who they are; the token's issue where it does not say.
        factor_at: When they presented a second factor, if it is said that they did.
        groups: As the provider lists them; None: it is not asked about groups.
    """

    issuer: str
    subject: str
    auth_time: float
    groups: frozenset[str] | None = None
    factor_at: float | None = None
    claims: Mapping[str, Any] = field(factory=dict, repr=False, eq=False)


def read_account(claims: Mapping[str, Any], groups_claim: str | None) -> Account:
    """The account of verified claims.

    Raises:
        SignInRefused: ``groups_overage``, ``groups_malformed``.
    """
    return Account(
        issuer=claims["iss"],
        subject=claims["sub"],
        auth_time=float(claims.get("auth_time", claims["iat"])),
        groups=None if groups_claim is None else _groups(claims, groups_claim),
        factor_at=_factor_at(claims),
        claims=claims,
    )


def _factor_at(claims: Mapping[str, Any]) -> float | None:
    """When a second factor was presented: what the provider says, and nothing that it leaves out.

    It has to say both that there was one, by ``amr`` (RFC 8176) or ``acr``, and when.
    """
    methods, level, at = claims.get("amr"), claims.get("acr"), claims.get("auth_time")
    has_factor = (isinstance(methods, list) and "mfa" in methods) or level == _SEVERAL_FACTORS
    is_time = isinstance(at, int | float) and not isinstance(at, bool) and at >= 1
    return float(at) if has_factor and is_time and at is not None else None


def account_name(account: Account, name_claim: str) -> str:
    """What a person is to be called who is added for this account.

    Raises:
        SignInRefused: ``name_missing``, ``email_unverified``.
    """
    name = account.claims.get(name_claim)
    ask = (
        "ask your operator to add you and to link your account: "
        f"issuer {account.issuer}, subject {account.subject}"
    )
    # What looks like an id would be read as somebody else's wherever a person is named.
    if not isinstance(name, str) or not is_member_name(name) or is_caller_id(name):
        raise SignInRefused(
            f"the claim {name_claim} of the ID token gives no name that a person can have here; "
            f"{ask}",
            reason="name_missing",
        )
    if name_claim == "email" and account.claims.get("email_verified") is not True:
        raise SignInRefused(
            "the provider has not verified your e-mail address, so no person can be named by it; "
            f"verify it there, or {ask}",
            reason="email_unverified",
        )
    return name


def _groups(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    sources = claims.get("_claim_names")
    if name not in claims and (
        claims.get("hasgroups") or (isinstance(sources, Mapping) and name in sources)
    ):
        raise SignInRefused(
            f"the account is in too many groups for an ID token, which lacks the claim {name}; "
            "have the provider list only groups that are assigned to this application",
            reason="groups_overage",
        )
    listed = claims.get(name, [])
    listed = [listed] if isinstance(listed, str) else listed
    if (
        not isinstance(listed, list)
        or len(listed) > MAX_GROUPS
        or not all(isinstance(one, str) and len(one) <= _MAX_GROUP for one in listed)
    ):
        raise SignInRefused(
            f"the claim {name} of the ID token is not a list of at most {MAX_GROUPS} names",
            reason="groups_malformed",
        )
    return frozenset(listed)
