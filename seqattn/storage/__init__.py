"""Reading and writing files: atomic writes, arrays, folder locks, resource limits."""

from seqattn.storage.arrays import (
    MOST_UNPACKED,
    PACKED_FROM,
    packed,
    read_arrays,
    save_arrays,
    write_arrays,
)
from seqattn.storage.atomic import (
    PART,
    atomic_write,
    open_atomic,
    remove_unfinished,
    write_json,
    write_transaction,
)
from seqattn.storage.background import BackgroundWriter
from seqattn.storage.files import open_to_append, read_file
from seqattn.storage.limits import allow_open_files, check_free_space, physical_memory
from seqattn.storage.locks import LOCK, exclusive_lock, locked

__all__ = [
    "LOCK", "MOST_UNPACKED", "PACKED_FROM", "PART", "BackgroundWriter", "allow_open_files",
    "atomic_write", "check_free_space", "exclusive_lock", "locked", "open_atomic",
    "open_to_append", "packed", "physical_memory", "read_arrays", "read_file",
    "remove_unfinished", "save_arrays", "write_arrays", "write_json", "write_transaction",
]  # fmt: skip
