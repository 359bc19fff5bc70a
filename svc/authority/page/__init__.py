"""The browser page of a person: what may be seen, what was refused, what is open (rule R36).

It is served to a Connector on loopback, as the target of an ordinary ``web`` resource, so that
nobody gets here but through the gate.  It decides nothing that is not decided elsewhere, gives
nothing to who does not bring a token of this Authority's own, and changes nothing by ``GET``.

Begin at ``pages``: which path is answered by what.  ``visitor`` says who asks, ``browser`` keeps
the browser's cookie and makes the tokens of forms, ``html`` writes text as text, ``listener``
speaks HTTP; each other module is one page.
"""
