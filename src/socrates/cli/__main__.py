"""Run the command line with `python -m socrates.cli`."""

import sys

from socrates.cli import main

if __name__ == "__main__":  # not in the processes of a pool, which import this module too
    sys.exit(main())
