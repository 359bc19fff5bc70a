"""The spool: records that an instance keeps on its own disk until a signed head covers them.

It never appends to the log; the leader does.  Begin with ``spool``; ``disk`` and ``segments`` are
its files, and ``quota`` limits how much each caller may fill.
"""
