"""Starts ds4-synth. Lies in a folder of no modules, so that nothing of the package shadows another import."""

import sys

from ds4.start import synth

if __name__ == "__main__":
    sys.exit(synth())
