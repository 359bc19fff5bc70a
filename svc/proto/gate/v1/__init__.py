"""Package ``gate.v1``: fields are only added, numbers never reused."""
