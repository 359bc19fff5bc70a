"""The audit queue at Authority: rows of others come in, are judged, and enter the log or are held.

Begin with ``queue`` (in), then ``drain`` and ``apply`` (into the log).
"""
