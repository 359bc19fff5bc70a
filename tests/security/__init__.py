"""Attacks that must come to nothing, each from one position of the threat model."""
