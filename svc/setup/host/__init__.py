"""Sets a role up on its host by a plan that an operator has seen: ``svc setup apply``.

``steps`` has the plan and its digest, without touching a file; ``planning`` makes it from a
configuration; ``applying`` carries it out.  Begin with ``applying``.
"""
