"""What is in force in this cluster, read from the store and verified by the log.

No other part of the Authority reads protected rows directly.  Begin with ``cluster`` (the value),
``cache`` (how it is read) and ``tables`` (how protected rows are handed out).
"""
