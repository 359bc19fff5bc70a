"""``svc init``: the files of a new cluster, all of them or none.

Nothing here serves; what is made here is served by the roles.
"""
