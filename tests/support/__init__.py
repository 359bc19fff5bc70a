"""What only our own tests use: marks of requirements, stock tools, PostgreSQL, built wheels.

It tests nothing of ``svc`` itself.  What a writer of a kind or a store may use as well is
``svc.testing``; what the tests of one room share lies in that room.
"""
