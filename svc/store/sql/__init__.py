"""The facets in SQL, written once for DB-API; no facet knows which database it uses.

It is one shelf: begin with ``transaction``; each other module is one facet of
``svc.interfaces.facets``.
"""
