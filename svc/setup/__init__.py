"""``svc init``: writes the files of a new cluster, all of them or none.

Nothing here serves a caller; the roles serve what is created here.  Begin with ``plan``, then
``making``.
"""
