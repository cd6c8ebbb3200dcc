"""The import of matplotlib in the fork server of a comparison.

If matplotlib cannot be imported, for example because of its settings, the server must still be able
to start the worker processes. The error is then reported when the pictures are drawn.
"""

import contextlib

with contextlib.suppress(Exception):
    import seqattn.plots.comparison_pictures  # noqa: F401
