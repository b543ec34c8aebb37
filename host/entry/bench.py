"""Starts ds4.perf.bench from a folder that holds no module, so that nothing of the package shadows another's import."""

import sys

from ds4.perf.bench import main

if __name__ == "__main__":
    sys.exit(main())
