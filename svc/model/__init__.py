"""Frozen values and pure functions that every floor may know."""
