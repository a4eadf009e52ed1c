"""Whether a person reads what is printed in a notebook."""

import os
import sys


def in_notebook() -> bool:
    """Tells whether this process is a notebook's kernel, or was begun by one with `!command`.

    A line that is drawn anew again and again would be kept there in each of its states.
    """
    return "ipykernel" in sys.modules or "JPY_PARENT_PID" in os.environ
