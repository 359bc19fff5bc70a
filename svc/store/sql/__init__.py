"""The facets in SQL, written once over DB-API; no facet knows which database it is."""
