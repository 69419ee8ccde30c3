"""Run the command line as ``python -m mercer``."""

import sys

from mercer.cli import main

if __name__ == "__main__":
    sys.exit(main())
