"""Sequences that do not fit into memory: many Parquet or Arrow files, read as they are needed.

The files are cut into *units* that are read whole: a row group of a Parquet file whose rows are
sequences, else a file. One pass before the training reads every unit once: it counts, draws the
validation and test parts (which stay in memory), and fits the scaling to the rest.

An epoch is a function of (seed, epoch), so that any step of it can be gone to at once: the units in
a random order, the sequences of each unit in a random order, and then stretches of at most
`data.buffer` sequences, each in a random order. Nothing has to be replayed on resume.

With `data.shards: L` that order is cut into L lanes of equal length, and each batch takes the same
share of every lane: processes that train together read their own lanes, and the batches are those
of one process. Where all training sequences fit into one buffer and one lane, the order is that of
sequences in memory.

Letters: N sequences, S source length, T target length, F features.
"""

from __future__ import annotations

from seqattn.data.streaming.one_pass import SAMPLE, Moments, Streamed, chances, load_stream
from seqattn.data.streaming.order import Epoch, Lane, Rows, Stream, Unit

__all__ = [
    "SAMPLE",
    "Epoch",
    "Lane",
    "Moments",
    "Rows",
    "Stream",
    "Streamed",
    "Unit",
    "chances",
    "load_stream",
]
