"""Starts ds4. Lies in a folder of no modules, so that nothing of the package shadows another import."""

import sys

from ds4.start import cli

if __name__ == "__main__":
    sys.exit(cli())
