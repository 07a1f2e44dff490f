"""Reading what the command line wrote."""

import numpy as np


def arrays_of(path):
    """The arrays of a file, which is closed."""
    with np.load(path) as archive:
        return dict(archive)
