"""Starts ds4.cli.main from a folder that holds no module, so that nothing of the package shadows another's import."""

import sys

from ds4.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
