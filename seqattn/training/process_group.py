"""One training over several processes that torchrun starts: each takes its shard of every batch.

Gradients are summed over all processes before each step, as one tensor, so that every process makes
the same step with the same weights. Order and teacher forcing are functions of seed and position
and need no communication. (torch's DistributedDataParallel would do the same by hooks on each
parameter; here all parameters are one tensor already.)
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
"""Timeout of the wait for the other processes to start."""
COLLECTIVE_TIMEOUT = timedelta(minutes=30)
"""Timeout of later waits: each process may read its files first. A process that ended is noticed at
once."""
FAILED = bytes(64)
"""The digest of a process that could not begin."""


class Shard(NamedTuple):
    """The share of one process in some sequences.

    Attributes:
        n: number of sequences of all processes.
        places: the places of this process among them; empty if there are fewer sequences than
            processes.
    """

    n: int
    places: slice


def shard_of(processes: ProcessGroup | None, n: int) -> Shard:
    """Return the share of this process in n sequences: all of them if it is alone."""
    rank, size = (0, 1) if processes is None else (processes.rank, processes.size)
    return Shard(n, slice(rank * n // size, (rank + 1) * n // size))


class ProcessGroup:
    """The processes of one training.

    Attributes:
        rank: of this process; 0 writes.
        size: number of processes.
        is_checked: whether `check_same_training` was called.
        stopped: whether a stop was requested of one of them, so that all have stopped.
    """

    def __init__(self, rank: int, size: int, device: torch.device) -> None:
        self.rank, self.size, self.device = rank, size, device
        self.is_checked = self.stopped = False

    @classmethod
    def init(cls, device: torch.device) -> ProcessGroup | None:
        """Join the group of torchrun's environment; None for a process by itself.

        Raises:
            DistributedError: the others cannot be reached.
        """
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size < 2 or "RANK" not in os.environ:
            return None
        rank = int(os.environ["RANK"])
        if device.type == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        # torchrun may keep its store when it restarts processes; the new ones must not read what
        # the lost ones wrote there.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        try:
            store, _, _ = next(rendezvous("env://", rank, size, timeout=CONNECT_TIMEOUT))
            dist.init_process_group(
                "nccl" if device.type == "cuda" else "gloo", rank=rank, world_size=size,
                timeout=COLLECTIVE_TIMEOUT, store=PrefixStore(f"seqattn/{attempt}", store),
            )  # fmt: skip
        except (RuntimeError, ValueError) as error:
            raise DistributedError(
                f"process {rank} of {size} cannot reach the others: {error}"
            ) from None
        return cls(rank, size, device)

    def destroy(self) -> None:
        """Leave the group."""
        with contextlib.suppress(Exception):  # it may be gone already
            dist.destroy_process_group()

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place.

        Raises:
            DistributedError: one of them is lost.
        """
        with self._wrap_errors():
            dist.all_reduce(tensor)
        return tensor

    def all_reduce_flags(self, stop: bool, save: bool) -> tuple[bool, bool]:
        """Whether a stop is requested of any process, and whether the first process is due to save.

        Raises:
            DistributedError: one of them is lost.
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
        """Context until `check_same_training`: a process that fails in it notifies the others, so
        that none waits."""
        try:
            yield
        except SeqattnError:
            if not self.is_checked:
                with contextlib.suppress(DistributedError):
                    self.check_same_training(None, None)
            raise

    def check_same_training(self, config: str | None, data: bytes | None) -> None:
        """Check that all processes are about to train the same config and data.

        Args:
            config: fingerprint of the config; None where this process failed.
            data: digest of the sequences; None where this process failed.

        Raises:
            DistributedError: they differ, or one has failed.
        """
        self.is_checked = True
        own = FAILED
        if config is not None and data is not None:
            own = hashlib.sha256(config.encode()).digest() + hashlib.sha256(data).digest()
        mine = torch.frombuffer(bytearray(own), dtype=torch.uint8).to(self.device)
        gathered = [torch.empty_like(mine) for _ in range(self.size)]
        with self._wrap_errors():
            dist.all_gather(gathered, mine)
        digests = [bytes(each.cpu().numpy()) for each in gathered]
        failed = [rank for rank, each in enumerate(digests) if each == FAILED]
        if failed and own != FAILED:
            raise DistributedError(
                f"process {failed[0]} of {self.size} could not begin; it says why."
            )
        for place, what in ((slice(0, 32), "config"), (slice(32, 64), "set of data")):
            others = [rank for rank, each in enumerate(digests) if each[place] != digests[0][place]]
            if others and not failed:
                raise DistributedError(
                    f"process {others[0]} of {self.size} has another {what} than process 0. Give"
                    " all the same files."
                )

    def broadcast(self, content: bytes) -> bytes:
        """Send the content of the first process to all.

        Raises:
            DistributedError: one of them is lost.
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
                f"process {self.rank} of {self.size} lost the others: {first}"
            ) from None
