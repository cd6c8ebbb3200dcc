"""The storage of files: atomic writes, arrays, folder locks and the limits of the machine."""

from seqattn.config.files import open_to_append, read_regular_file
from seqattn.runs.storage.arrays import (
    MAX_UNPACKED_BYTES,
    MIN_COMPRESSED_BYTES,
    npz_bytes,
    read_arrays,
    save_arrays,
    write_arrays,
)
from seqattn.runs.storage.atomic import (
    TMP_SUFFIX,
    atomic_write,
    open_atomic,
    remove_unfinished,
    temporary_path,
    write_json,
    write_transaction,
)
from seqattn.runs.storage.background import BackgroundWriter
from seqattn.runs.storage.limits import (
    allow_open_files,
    check_free_space,
    core_count,
    physical_memory,
)
from seqattn.runs.storage.locks import LOCK_NAME, exclusive_lock, folder_lock

__all__ = [
    "LOCK_NAME",
    "MAX_UNPACKED_BYTES",
    "MIN_COMPRESSED_BYTES",
    "TMP_SUFFIX",
    "BackgroundWriter",
    "allow_open_files",
    "atomic_write",
    "check_free_space",
    "core_count",
    "exclusive_lock",
    "folder_lock",
    "npz_bytes",
    "open_atomic",
    "open_to_append",
    "physical_memory",
    "read_arrays",
    "read_regular_file",
    "remove_unfinished",
    "save_arrays",
    "temporary_path",
    "write_arrays",
    "write_json",
    "write_transaction",
]  # fmt: skip
