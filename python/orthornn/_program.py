"""The command ``orthornn``: the program of the package takes the place of this process."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from ._library import find_program


def main() -> NoReturn:
    """Runs the program with the arguments of this process; terminal, signals and exit status are its own."""
    try:
        program = find_program()
        os.execv(program, [sys.argv[0], *sys.argv[1:]])
    except (ImportError, OSError) as error:
        sys.exit(f"orthornn: {error}")
