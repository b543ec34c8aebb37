"""Starts ds4.perf.synth. Lies in a folder of no modules, so that nothing of the package shadows another import."""

import sys

from ds4.perf.synth.main import main

if __name__ == "__main__":
    sys.exit(main())
