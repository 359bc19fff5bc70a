"""What is in force in this cluster: read from the store and verified by the log.

Begin with ``cluster`` (the value), ``cache`` (how it is read) and ``tables`` (how protected rows
are given out).  No other part of Authority reads protected rows past these.
"""
