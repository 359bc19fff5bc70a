"""Recorded requests, decided again."""
