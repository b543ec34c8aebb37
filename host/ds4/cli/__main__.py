"""`python -m ds4.cli`."""

from __future__ import annotations

import sys

from ds4.start import cli

if __name__ == "__main__":
    sys.exit(cli())
