"""The page on which a browser uses or makes a passkey for a sign-in that a command began.

It is reached by its public name, without the gate: nobody is signed in yet.  It says and
does nothing but for an attempt whose address somebody has.  ``pages`` answers, ``script``
is what runs in the browser, ``listener`` bounds the connections.
"""
