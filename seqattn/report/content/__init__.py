"""The content of a report page as data for JSON. Large arrays are compressed.

The letters in shapes are N (sequences), L (layers), A (heads), T (target steps), S (source steps)
and F (features).
"""

from seqattn.report.content.comparison import comparison_content, thin_history
from seqattn.report.content.examples import MAX_EXAMPLES, group_losses, sequence_losses
from seqattn.report.content.run import run_content
from seqattn.report.content.side_by_side import runs_content

__all__ = [
    "MAX_EXAMPLES", "comparison_content", "group_losses", "run_content", "runs_content",
    "sequence_losses", "thin_history",
]  # fmt: skip
