"""`python -m ds4.perf.synth` is ds4-synth."""

import sys

from ds4.perf.synth.main import main

if __name__ == "__main__":
    sys.exit(main())
