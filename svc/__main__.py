"""``python -m svc``: the same as ``svc``."""

import sys

from svc.cli import main

if __name__ == "__main__":
    sys.exit(main())
