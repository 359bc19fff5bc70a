"""What is asked of a policy, what it answers, and the words it is written in.  Values only.

Cedar itself is behind :mod:`svc.policy`.
"""
