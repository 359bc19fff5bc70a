"""What an SSH session that ends at the Connector records of itself.

``lines`` makes the text of a recording, ``channel`` hears what passes in one channel, and
``session`` goes by whether the session has to be recorded.
"""
