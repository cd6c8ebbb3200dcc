"""Safetensors files with a checksum.

The checksum is part of the JSON text in the metadata. It is the SHA-256 digest of the whole file,
computed with 64 zeros in place of the checksum. The checksum covers every bit, including the header
and the padding, so a read detects a flipped bit, a truncation or a swapped tensor before any tensor
is used. This module represents tensors as NumPy arrays, so that checkpoints can be read without
torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from seqattn.errors import CheckpointError
from seqattn.runs.storage import atomic_write, physical_memory, read_regular_file

METADATA_KEY = "seqattn"
CHECKSUM = "checksum"
PLACEHOLDER = "0" * 64
MAX_HEADER_BYTES = 16 * 2**20


def save_checksummed(
    path: Path,
    tensors: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, Any],
    backup_path: Path | None = None,
) -> None:
    """Write tensors and metadata. Equal content results in equal bytes.

    Args:
        backup_path: new path of an existing file at `path`; None to replace that file.
    """
    text = json.dumps({**metadata, CHECKSUM: PLACEHOLDER}, sort_keys=True, allow_nan=False)
    owned = {key: np.asarray(tensor, order="C") for key, tensor in tensors.items()}
    raw = safetensors.numpy.save(owned, {METADATA_KEY: text})
    at = raw.index(PLACEHOLDER.encode())
    digest = hashlib.sha256(raw).hexdigest().encode()
    atomic_write(
        path, raw[:at] + digest + raw[at + len(digest) :], backup_path=backup_path, verify=True
    )


def write_plain(path: Path, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Write tensors for other programs, without metadata."""
    owned = {key: np.asarray(tensor, order="C") for key, tensor in tensors.items()}
    atomic_write(path, safetensors.numpy.save(owned))


def load_checksummed(path: Path, version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Check a file, and read its metadata and tensors.

    Raises:
        CheckpointError: if the file is missing, corrupt or too large, was not written by seqattn,
            has another version, or contains numbers that are not finite.
    """
    try:
        raw = read_regular_file(path, physical_memory())
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint.") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}).") from None
    length = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or length > min(len(raw) - 8, MAX_HEADER_BYTES):
        raise _corrupt(path, "its header is cut short" if raw else "it is empty")
    metadata = _metadata(path, raw[8 : 8 + length])
    if metadata["version"] != version:
        raise CheckpointError(
            f"{path}: has format version {metadata['version']}; this seqattn reads version"
            f" {version} only."
        )
    _check_checksum(path, raw, length, metadata.pop(CHECKSUM, None))
    try:
        tensors = safetensors.numpy.load(raw)
    except Exception as error:  # safetensors and NumPy raise errors of several classes
        raise _corrupt(path, str(error)) from None
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise CheckpointError(
                f"{path}: {name} contains numbers that are not finite. Use another checkpoint."
            )
    return metadata, tensors


def read_metadata(path: Path) -> dict[str, Any]:
    """Read the metadata of a file from its header, without a check of the tensors.

    Raises:
        CheckpointError: if the file cannot be read, or if seqattn did not write it.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = file.read(min(length, MAX_HEADER_BYTES))
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}.") from None
    return _metadata(path, header)


def _metadata(path: Path, header: bytes) -> dict[str, Any]:
    """Parse the header of a file, and return the metadata that seqattn stored in it."""
    try:
        metadata = json.loads(json.loads(header)["__metadata__"][METADATA_KEY])
        if not isinstance(metadata["version"], int):
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        if not header.startswith(b"{"):
            raise _corrupt(path, "it has no header of JSON") from None
        if isinstance(error, ValueError):
            raise _corrupt(path, "its header is not JSON") from None
        raise CheckpointError(
            f"{path}: is a safetensors file, but not one that seqattn wrote (no readable"
            f" {METADATA_KEY!r} in its metadata)."
        ) from None
    found: dict[str, Any] = metadata
    return found


def _check_checksum(path: Path, raw: bytes, length: int, checksum: Any) -> None:
    """Check that the checksum in the metadata, or None, is the checksum of the content `raw`, whose
    header has `length` bytes."""
    found = b""
    if isinstance(checksum, str) and len(checksum) == len(PLACEHOLDER) and checksum.isascii():
        found = checksum.encode()
    if not found or raw[: 8 + length].count(found) != 1:
        raise _corrupt(path, "its checksum is missing")
    at = raw.index(found)
    digest = hashlib.sha256(raw[:at])
    digest.update(PLACEHOLDER.encode())
    digest.update(memoryview(raw)[at + len(found) :])
    if digest.hexdigest() != checksum:
        raise _corrupt(path, "checksum mismatch: part of the file was changed")


def _corrupt(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: is a truncated or corrupt checkpoint ({why}), or a file of another kind;"
        " pickle files are never opened. Use another checkpoint, or remove its run folder and"
        " train again."
    )
