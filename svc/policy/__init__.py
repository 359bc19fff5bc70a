"""Cedar: the vocabulary, the guard before a text, and the engine that decides.

Knows nothing of stores, wires or roles: texts, entities and requests come in
as values, decisions go out as values.
"""
