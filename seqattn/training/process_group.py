"""The process group of a training run that torchrun starts in several processes.

Each process computes the gradient of its shard of every batch. The processes sum their gradients
before each update, so every process makes the same update of the same weights. The order of
sequences and the teacher forcing are functions of seed and position, and need no communication.
torch's `DistributedDataParallel` would communicate once for each bucket of parameters, but here all
parameters are already a single tensor.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from seqattn.errors import DistributedError, SeqattnError

CONNECT_TIMEOUT = timedelta(seconds=120)
"""Longest time to wait until the other processes have started."""
COLLECTIVE_TIMEOUT = timedelta(minutes=30)
"""Longest time to wait for a message from another process, which may be reading its files.

If a process ends, the other processes notice it at once.
"""
FAILED = bytes(64)
"""Value that a failed process sends instead of its digests."""


class Shard(NamedTuple):
    """The share of n sequences that belongs to one process.

    Attributes:
        n: number of sequences that the processes share.
        places: slice of the sequences of this process. The slice may be empty if n is smaller than
            the number of processes.
    """

    n: int
    places: slice


def shard_of(processes: ProcessGroup | None, n: int) -> Shard:
    """Return this process's share of n sequences. Without a process group, this process has all n
    sequences."""
    rank, size = (0, 1) if processes is None else (processes.rank, processes.size)
    return Shard(n, slice(rank * n // size, (rank + 1) * n // size))


class ProcessGroup:
    """The processes that train a run together. If another process fails, each method that
    communicates raises a `DistributedError`.

    Attributes:
        rank: number of this process from 0. Process 0 writes all files.
        size: number of processes.
        device: device of this process.
        is_checked: whether `check_same_training` was called.
        stopped: whether any process received a request to stop, which stops all processes.
    """

    def __init__(self, rank: int, size: int, device: torch.device) -> None:
        self.rank, self.size, self.device = rank, size, device
        self.is_checked = self.stopped = False

    @classmethod
    def init(cls, device: torch.device) -> ProcessGroup | None:
        """Join the process group that the environment variables of torchrun describe.

        Returns:
            The process group, or None if this process is alone.

        Raises:
            DistributedError: if the other processes cannot be reached.
        """
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size < 2 or "RANK" not in os.environ:
            return None
        rank = int(os.environ["RANK"])
        if device.type == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        # torchrun may keep its store when it restarts processes. The new processes must not read
        # the entries of the lost processes.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        try:
            store, _, _ = next(rendezvous("env://", rank, size, timeout=CONNECT_TIMEOUT))
            dist.init_process_group(
                "nccl" if device.type == "cuda" else "gloo", rank=rank, world_size=size,
                timeout=COLLECTIVE_TIMEOUT, store=PrefixStore(f"seqattn/{attempt}", store),
            )  # fmt: skip
        except (RuntimeError, ValueError) as error:
            raise DistributedError(
                f"process {rank} of {size} cannot reach the other processes: {error}"
            ) from None
        return cls(rank, size, device)

    def destroy(self) -> None:
        """Leave the group."""
        with contextlib.suppress(Exception):  # the group may be gone already
            dist.destroy_process_group()

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all processes in place, and return it."""
        with self._wrap_errors():
            dist.all_reduce(tensor)
        return tensor

    def all_reduce_flags(self, stop: bool, save: bool) -> tuple[bool, bool]:
        """Share the decisions to stop and to save between all processes.

        Returns:
            Whether any process received a request to stop, and whether a save is due in process 0.
        """
        flags = torch.tensor([stop, save and self.rank == 0], dtype=torch.uint8)
        flags = flags.to(self.device)
        with self._wrap_errors():
            dist.all_reduce(flags, dist.ReduceOp.MAX)
        stop, save = flags.tolist()
        self.stopped = self.stopped or bool(stop)
        return bool(stop), bool(save)

    @contextlib.contextmanager
    def startup(self) -> Iterator[None]:
        """Return a context manager for the work before `check_same_training`.

        If the work of this process raises a `SeqattnError`, the context manager notifies the other
        processes, so that they do not wait for this process.
        """
        try:
            yield
        except SeqattnError:
            if not self.is_checked:
                with contextlib.suppress(DistributedError):
                    self.check_same_training(None, None)
            raise

    def check_same_training(self, config_text: str | None, data_digest: bytes | None) -> None:
        """Check that all processes have the same config and the same data.

        Args:
            config_text: the config values that must be equal; None if this process failed.
            data_digest: digest of the sequences; None if this process failed.

        Raises:
            DistributedError: if the configs or the data differ, or if another process failed.
        """
        self.is_checked = True
        own = FAILED
        if config_text is not None and data_digest is not None:
            texts = (config_text.encode(), data_digest)
            own = b"".join(hashlib.sha256(text).digest() for text in texts)
        mine = torch.frombuffer(bytearray(own), dtype=torch.uint8).to(self.device)
        gathered = [torch.empty_like(mine) for _ in range(self.size)]
        with self._wrap_errors():
            dist.all_gather(gathered, mine)
        digests = [bytes(each.cpu().numpy()) for each in gathered]
        failed = [rank for rank, each in enumerate(digests) if each == FAILED]
        if failed and own != FAILED:
            raise DistributedError(
                f"process {failed[0]} of {self.size} could not start; its own message states why."
            )
        for place, what in ((slice(0, 32), "config"), (slice(32, 64), "set of data")):
            others = [rank for rank, each in enumerate(digests) if each[place] != digests[0][place]]
            if others and not failed:
                raise DistributedError(
                    f"process {others[0]} of {self.size} has a different {what} from that of"
                    " process 0. Give all processes the same files."
                )

    def broadcast(self, content: bytes) -> bytes:
        """Send the content of process 0 to all processes, and return this content.

        Args:
            content: the bytes to send. The argument of every process except process 0 is ignored.
        """
        length = torch.tensor([len(content)], dtype=torch.int64, device=self.device)
        with self._wrap_errors():
            dist.broadcast(length, 0)
            size = int(length)
            if size == 0:
                return b""
            raw = bytearray(content if self.rank == 0 else size)
            tensor = torch.frombuffer(raw, dtype=torch.uint8).to(self.device)
            dist.broadcast(tensor, 0)
        return bytes(tensor.cpu().numpy())

    @contextlib.contextmanager
    def _wrap_errors(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            first = (str(error).strip() or "no reason given").splitlines()[0][:200]
            raise DistributedError(
                f"process {self.rank} of {self.size} lost the connection to the other"
                f" processes: {first}"
            ) from None
