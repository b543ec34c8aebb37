"""Starts ds4.server.__main__ from a folder that holds no module, so that nothing of the package shadows another's import."""

import sys

from ds4.server.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
