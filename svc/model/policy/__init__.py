"""What a policy is asked, what it answers, and the terms it is written in.  Values only.

Cedar itself is used only in :mod:`svc.policy`.
"""
