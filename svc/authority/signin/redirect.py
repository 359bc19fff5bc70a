"""Judges the browser's return from the provider; pure."""

from __future__ import annotations

from hmac import compare_digest
from urllib.parse import parse_qsl

from svc.authority.signin.refusals import SignInRefused, printable

_MAX_QUERY = 8192


def read_redirect(query: str, *, state: str, issuer: str, names_issuer: bool) -> str:
    """The code in a redirect's query.

    Args:
        state: Of this attempt.
        names_issuer: Whether the provider names itself in every redirect (RFC 9207).

    Raises:
        SignInRefused: ``redirect_malformed``, ``redirect_state``, ``redirect_issuer``,
            ``sign_in_denied``, ``provider_refused``.
    """
    if len(query) > _MAX_QUERY:
        raise _redirect("malformed", "its query is too long")
    try:
        # With those that are empty: `iss=` names no issuer of ours.
        pairs = parse_qsl(query, True, strict_parsing=True, max_num_fields=32, errors="strict")
    except ValueError:
        raise _redirect("malformed", "its query cannot be read") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _redirect("malformed", "it names a parameter twice")
    if not compare_digest(found.get("state", "").encode(), state.encode()):
        raise _redirect("state", "it is not of this sign-in")
    if found.get("iss", issuer) != issuer or (names_issuer and "iss" not in found):
        raise _redirect("issuer", "it is of another identity provider")
    if "error" in found:
        denied = found["error"] == "access_denied"
        word = printable(found["error"])
        raise SignInRefused(
            "the sign-in was denied at the identity provider"
            if denied
            else f"the identity provider refused the sign-in ({word or 'no reason'})",
            reason="sign_in_denied" if denied else "provider_refused",
        )
    code = found.get("code", "")
    if not code:
        raise _redirect("malformed", "it has no code")
    return code


def _redirect(word: str, text: str) -> SignInRefused:
    return SignInRefused(
        f"the browser's return is refused: {text}; run `svc login` again",
        reason=f"redirect_{word}",
    )
