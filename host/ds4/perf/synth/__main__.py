"""`python -m ds4.perf.synth` is ds4-synth."""

from __future__ import annotations

import sys

from ds4.start import synth

if __name__ == "__main__":
    sys.exit(synth())
