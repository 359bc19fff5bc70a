"""Cedar: the vocabulary, the guard that tries a text first, and the engine that decides.

This room knows no store, wire protocol or role: it takes texts, entities and requests as values,
and returns decisions as values.  It is one shelf: each module is a step from a text
to a decision.  Begin with ``engine`` and ``compile``.
"""
