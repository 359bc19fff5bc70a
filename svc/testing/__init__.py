"""For tests, ours and those of third parties: contract tests, and a gateway of real processes.

No role imports it.  Begin with ``contracts`` and ``gateway``.
"""
