"""``python -m svc``, and this file by its path: the same as ``svc``.

Python itself imports a few modules of its library before this one, with the
working directory first on its path; ``python -P -m svc``, or ``svc``, keeps
that directory out from the start.
"""

import os
import sys


def leave_working_directory(path: list[str], home: str) -> None:
    """Take off *path* what ``-m`` put in front: the working directory.

    A ``click.py`` there would else be imported for ours, and drop-ins looked for.  Only where the
    program itself lies there is it still needed, and then comes last.

    Args:
        path: As ``sys.path`` at the start.
        home: The directory that holds the package ``svc``.
    """
    try:
        here = os.getcwd()
    except OSError:
        here = ""  # It is gone, and Python was told of none.
    if not path or path[0] not in ("", here):
        return
    del path[0]
    if home == here:
        path.append(home)


if __name__ == "__main__":
    _OWN = os.path.dirname(os.path.abspath(__file__))
    _HOME = os.path.dirname(_OWN)
    if not sys.flags.safe_path:
        leave_working_directory(sys.path, _HOME)
    if sys.path[:1] == [_OWN]:
        del sys.path[0]  # This file was named by its path: modules of ours are none of Python's.
    if _HOME not in sys.path:
        sys.path.append(_HOME)
    from svc.start import main

    sys.exit(main())
