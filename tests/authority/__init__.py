"""Tests of the Authority role, on the store in memory."""
