"""Limits how often a caller may ask, and how much of a bounded resource it may use.

The functions are pure: the roles say whom they limit and what a refusal looks like.  Begin with
``bucket``, which counts, and ``limits``, which names what is limited.  ``quota`` divides the places
of a queue, ``counter`` sums up refusals, and ``source`` says which caller an address belongs to.
"""
