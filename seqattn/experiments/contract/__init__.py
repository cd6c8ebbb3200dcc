"""Functions that check the contract: the properties that every mechanism must have.

A mechanism is a part that a plugin can add to seqattn, such as a score, a cell or a task.
`check_plugin` checks all mechanisms of a plugin. seqattn's own tests call the same functions for
the built-in mechanisms.
"""

from seqattn.experiments.contract.plugin import MechanismReport, check_mechanism, check_plugin

__all__ = ["MechanismReport", "check_mechanism", "check_plugin"]
