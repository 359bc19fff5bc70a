"""The static file: an executable that needs nothing of the machine but its kernel.

``build`` makes it, of ``packages`` of Debian and of wheels, which ``tree`` lays out as they are
unpacked; ``launcher.c`` is what starts.  ``packages.lock`` says which packages; run this package
(``python -m contrib.release.static``) for a newer one.
"""
