"""The Authority role: it decides, records, signs, and owns the store.

Everything that takes effect is written together with its audit record in one transaction, and
nothing leaves this role before that transaction is durable.  Only the Authority makes grants and
certificates.  Begin with ``control`` for Proxies' calls and ``admin`` for operators' commands.
"""
