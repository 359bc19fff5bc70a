"""The audit log as an outsider verifies it: from the store, the anchor and the root alone.

Begin with ``log``; ``rows`` reads and checks in parallel.
"""
