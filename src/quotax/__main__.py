"""`python -m quotax` is the command `quotax`."""

import sys

from quotax.cli import main

if __name__ == "__main__":
    sys.exit(main())
