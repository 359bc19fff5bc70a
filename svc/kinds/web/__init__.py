"""The built-in kind ``web``: HTTP/1.1 applications whose requests are decided one by one.

Begin with ``head`` (which requests are taken at all) and ``gate``.
"""
