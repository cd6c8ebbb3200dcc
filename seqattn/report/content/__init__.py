"""What a page shows, as plain data: numbers in JSON, arrays of weights packed.

Letters: N sequences, L layers, A heads, T target steps, S source steps.
"""

from seqattn.report.content.comparison import comparison_content, thinned
from seqattn.report.content.examples import MOST_EXAMPLES, classes, errors
from seqattn.report.content.run import run_content

__all__ = ["MOST_EXAMPLES", "classes", "comparison_content", "errors", "run_content", "thinned"]
