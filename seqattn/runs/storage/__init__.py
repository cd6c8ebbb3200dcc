"""Reading and writing files: atomic writes, arrays, folder locks, resource limits."""

from seqattn.runs.storage.arrays import (
    MOST_UNPACKED,
    PACKED_FROM,
    packed,
    read_arrays,
    save_arrays,
    write_arrays,
)
from seqattn.runs.storage.atomic import (
    PART,
    atomic_write,
    open_atomic,
    remove_unfinished,
    write_json,
    write_transaction,
)
from seqattn.runs.storage.background import BackgroundWriter
from seqattn.runs.storage.files import open_to_append, read_file
from seqattn.runs.storage.limits import allow_open_files, check_free_space, physical_memory
from seqattn.runs.storage.locks import LOCK, exclusive_lock, locked

__all__ = [
    "LOCK", "MOST_UNPACKED", "PACKED_FROM", "PART", "BackgroundWriter", "allow_open_files",
    "atomic_write", "check_free_space", "exclusive_lock", "locked", "open_atomic",
    "open_to_append", "packed", "physical_memory", "read_arrays", "read_file",
    "remove_unfinished", "save_arrays", "write_arrays", "write_json", "write_transaction",
]  # fmt: skip
