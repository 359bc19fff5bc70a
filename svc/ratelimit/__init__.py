"""How often somebody may ask, and how much of a bounded place one may hold.  Pure.

``bucket`` counts, ``limits`` names what is limited, ``quota`` shares out the places of a queue,
``counter`` sums up what was refused, ``source`` says whom an address stands for.  Who is asked, and
what a refusal looks like, is for the roles to say.
"""
