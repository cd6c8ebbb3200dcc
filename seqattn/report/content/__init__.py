"""What a page shows, as plain data: numbers in JSON, arrays of weights packed.

Letters: N sequences, L layers, A heads, T target steps, S source steps.
"""

from seqattn.report.content.comparison import of_outcome, thinned
from seqattn.report.content.examples import MOST_EXAMPLES, classes, errors
from seqattn.report.content.run import of_run

__all__ = ["MOST_EXAMPLES", "classes", "errors", "of_outcome", "of_run", "thinned"]
