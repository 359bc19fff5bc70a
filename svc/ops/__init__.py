"""An operator's work outside the roles: backups, restores, reading and verifying the log.

It works on files and stores, whether or not a role runs, and serves no caller.  Begin with
``backup``, ``verify`` and ``show``.
"""
