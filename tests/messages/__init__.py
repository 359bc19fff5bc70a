"""Tests of the messages: what is written is read back, and nothing else is taken."""
