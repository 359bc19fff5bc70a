"""Policies that several people stand behind: proposed by one, approved by others, activated.

Begin with ``proposals``.  How a text comes into force is in ``svc.authority.policy.activate``.
"""
