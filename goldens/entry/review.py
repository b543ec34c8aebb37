"""Starts goldens.review.main; lies in a folder of no modules, so that nothing of the package shadows another import."""

import sys

from goldens.review.main import main

if __name__ == "__main__":
    sys.exit(main())
