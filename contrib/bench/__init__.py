"""Figures, each a ratio against a peer in the same run; never a test.

``python -m contrib.bench`` prints tables and writes ``bench.json``.  Figures
of one run may be compared with each other, and with nothing else.
"""
