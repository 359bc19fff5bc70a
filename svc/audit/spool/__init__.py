"""Records written away from the leader: durable on their origin's disk until a head covers them.

Begin with ``spool``; ``disk`` and ``segments`` are its files, ``quota`` says who fills how much.
"""
