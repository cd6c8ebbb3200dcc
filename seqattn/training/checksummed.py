"""Safetensors files that know whether they are whole.

Safetensors has no checksum of its own. Here the one JSON text in its metadata carries the SHA-256
of the whole file, taken with 64 zeros in the checksum's place: it covers every bit, header and
padding too, so that a flipped bit, a cut or a swapped tensor is noticed before anything is made of
it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.numpy
import safetensors.torch
import torch
from torch import Tensor

from seqattn.errors import CheckpointError
from seqattn.runs.storage import atomic_write, physical_memory, read_regular_file

METADATA_KEY = "seqattn"
CHECKSUM = "checksum"
NONE_YET = "0" * 64
LONGEST_HEADER = 16 * 2**20
FIRST_SEALED = 3
"""The first version of checkpoints with a checksum."""


def save_checksummed(
    path: Path,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, Any],
    keep_as: Path | None = None,
) -> None:
    """Write tensors and what is said of them; equal content is equal bytes.

    Args:
        metadata: for JSON.
        keep_as: the file that was at `path` stays under this name.

    Raises:
        OSError: the disk refused, or what it gave back is not what was written.
        ValueError: a number in the metadata is not finite.
    """
    text = json.dumps({**metadata, CHECKSUM: NONE_YET}, sort_keys=True, allow_nan=False)
    owned = {key: tensor.cpu().contiguous().numpy() for key, tensor in tensors.items()}
    raw = safetensors.numpy.save(owned, {METADATA_KEY: text})
    at = raw.index(NONE_YET.encode())
    digest = hashlib.sha256(raw).hexdigest().encode()
    atomic_write(
        path, raw[:at] + digest + raw[at + len(digest) :], backup_path=keep_as, verify=True
    )


def write_plain(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors for other programs, with no word of ours in the file.

    Raises:
        OSError: the disk refused.
    """
    owned = {key: tensor.cpu().contiguous().numpy() for key, tensor in tensors.items()}
    atomic_write(path, safetensors.numpy.save(owned))


def load_checksummed(path: Path, newest: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Metadata and tensors, after the file was found to be whole.

    Files of versions before there was a checksum are taken without one.

    Args:
        newest: the newest version that can be read.

    Raises:
        CheckpointError: missing, broken in any way, or not one of ours.
    """
    raw = _content(path)
    length = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or length > min(len(raw) - 8, LONGEST_HEADER):
        raise _not_whole(path, "its header is cut short" if raw else "it is empty")
    metadata = _metadata(path, raw[8 : 8 + length])
    version = metadata["version"]
    if not 1 <= version <= newest:
        raise CheckpointError(
            f"{path}: has format version {version}; this seqattn reads versions 1 to {newest}."
            + (" A newer seqattn wrote it." if version > newest else "")
        )
    checksum = metadata.pop(CHECKSUM, None)
    if version >= FIRST_SEALED or checksum is not None:
        _refuse_changed(path, raw, length, checksum)
    try:
        tensors = safetensors.torch.load(raw)
    except Exception as error:  # safetensors has errors of its own, torch others
        raise _not_whole(path, str(error)) from None
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(
                f"{path}: {name} holds numbers that are not finite; nothing can be made of it. Take"
                " another checkpoint."
            )
    return metadata, tensors


def _metadata(path: Path, header: bytes) -> dict[str, Any]:
    """
    Raises:
        CheckpointError: it is no header of safetensors, or not one of ours.
    """
    try:
        metadata = json.loads(json.loads(header)["__metadata__"][METADATA_KEY])
        if not isinstance(metadata["version"], int):
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        if not header.startswith(b"{"):
            raise _not_whole(path, "it has no header of JSON") from None
        if isinstance(error, ValueError):
            raise _not_whole(path, "its header is no JSON") from None
        raise CheckpointError(
            f"{path}: is a safetensors file, but not one that seqattn wrote (no readable"
            f" {METADATA_KEY!r} in its metadata)."
        ) from None
    found: dict[str, Any] = metadata
    return found


def _content(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > physical_memory():
            raise CheckpointError(
                f"{path}: has {size / 2**30:.0f} GiB, more than this machine has memory."
            )
        return read_regular_file(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint.") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}).") from None


def _refuse_changed(path: Path, raw: bytes, length: int, checksum: Any) -> None:
    """Hold the file against its checksum."""
    found = b""
    if isinstance(checksum, str) and len(checksum) == len(NONE_YET) and checksum.isascii():
        found = checksum.encode()
    if not found or raw[: 8 + length].count(found) != 1:
        raise _not_whole(path, "its checksum is gone")
    at = raw.index(found)
    digest = hashlib.sha256(raw[:at])
    digest.update(NONE_YET.encode())
    digest.update(memoryview(raw)[at + len(found) :])
    if digest.hexdigest() != checksum:
        raise _not_whole(path, "checksum mismatch: a part of it was changed")


def _not_whole(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: is a truncated or corrupt checkpoint ({why}). It was cut short or damaged, or is"
        " another kind of file under this name; pickles are never opened. Take another checkpoint,"
        " or remove its run folder and train again."
    )
