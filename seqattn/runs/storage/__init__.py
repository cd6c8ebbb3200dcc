"""The storage of files: atomic writes, folder locks, output files, arrays, and the limits of the
machine."""

from seqattn.config.files import open_to_append, read_regular_file
from seqattn.runs.storage.arrays import (
    MIN_COMPRESSED_BYTES,
    npz_bytes,
    read_arrays,
    save_arrays,
    unpack_arrays,
    write_arrays,
)
from seqattn.runs.storage.atomic import (
    LOCK_NAME,
    TMP_SUFFIX,
    BackgroundWriter,
    atomic_write,
    check_outputs,
    exclusive_lock,
    folder_lock,
    open_atomic,
    output_file,
    remove_unfinished,
    temporary_path,
    write_json,
    write_output,
    write_transaction,
)
from seqattn.runs.storage.limits import (
    allow_open_files,
    core_count,
    physical_memory,
)

__all__ = [
    "LOCK_NAME",
    "MIN_COMPRESSED_BYTES",
    "TMP_SUFFIX",
    "BackgroundWriter",
    "allow_open_files",
    "atomic_write",
    "check_outputs",
    "core_count",
    "exclusive_lock",
    "folder_lock",
    "npz_bytes",
    "open_atomic",
    "open_to_append",
    "output_file",
    "physical_memory",
    "read_arrays",
    "read_regular_file",
    "remove_unfinished",
    "save_arrays",
    "temporary_path",
    "unpack_arrays",
    "write_arrays",
    "write_json",
    "write_output",
    "write_transaction",
]  # fmt: skip
