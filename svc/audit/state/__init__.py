"""Computes which protected rows are in force, from signed records alone (rule R8).

It never takes the word of a table.  Begin with ``in_force``; ``anchor`` stores the result outside
the store.
"""
