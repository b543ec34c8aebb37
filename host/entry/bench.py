"""Starts ds4-bench. Lies in a folder of no modules, so that nothing of the package shadows another import."""

import sys

from ds4.start import bench

if __name__ == "__main__":
    sys.exit(bench())
