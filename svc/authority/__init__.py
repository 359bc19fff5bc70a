"""The Authority role: it decides, records, signs, and owns the store.

The rooms below do one thing each; here they work together.  Everything that
takes effect is written with its audit record in one transaction, and nothing
leaves before that transaction is durable.
"""
