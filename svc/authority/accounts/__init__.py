"""People who sign in with a password and a second factor that Authority keeps: its side.

Begin with ``service``.  ``codes``, ``lockout`` and ``security_keys`` are pure; what
they refuse is a table.  Whoever may not sign in is always told the same
(``refusals``); the true reason is in the audit log.
"""
