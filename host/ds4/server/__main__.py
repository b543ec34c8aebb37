"""`python -m ds4.server`."""

from __future__ import annotations

import sys

from ds4.start import server

if __name__ == "__main__":
    sys.exit(server())
