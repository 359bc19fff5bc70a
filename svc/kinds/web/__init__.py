"""The built-in kind ``web``: HTTP/1.1 applications whose requests are decided one by one.

It is one shelf: both ends and the gate read HTTP by the same modules.  Begin with ``head`` (which
requests are taken at all) and ``gate``.
"""
