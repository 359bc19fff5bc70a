"""The policy at Authority: set by operators, in force here, and published to the Proxies.

Begin with ``active``; decisions themselves are :mod:`svc.policy`.
"""
