"""People who sign in at an identity provider: Authority's side.

Authority alone makes state, nonce and verifier, redeems the code and judges the
ID token (rules R5, R35); a laptop only brings the redirect back.  Begin with
``service``.  It is one shelf: all flows use one provider and one entrance.
``id_token`` and ``json_web_keys`` are pure: what they refuse is a table.
"""
