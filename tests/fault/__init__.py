"""Faults thrown at real processes over real stores; one module a row of the fault matrix."""
