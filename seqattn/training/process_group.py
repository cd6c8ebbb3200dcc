"""One training over several processes, as torchrun starts them: each takes its share of a batch.

Gradients are added up over all processes before each step, as one tensor, so every process makes
the same step with the same weights. Order and coins are functions of seed and position and need no
word between them. (torch's DistributedDataParallel would do the same by hooks on each parameter;
here all parameters are one tensor already.)
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from seqattn.errors import DistributedError, SeqattnError

PATIENCE = timedelta(seconds=120)
"""How long a process waits for the others to be there."""
SLOWEST = timedelta(minutes=30)
"""How long it waits for them later: each may read its files first. One that ended is noticed at
once."""
NOTHING, FAILED = b"", bytes(64)


class ProcessGroup:
    """The processes of one training.

    Attributes:
        rank: which of them this is; 0 writes.
        size: how many there are.
        agreed: whether all have said what they are to train.
        stopped: whether one of them was told to stop, so that all have.
    """

    def __init__(self, rank: int, size: int, device: torch.device) -> None:
        self.rank, self.size, self.device = rank, size, device
        self.agreed = self.stopped = False

    @classmethod
    def begin(cls, device: torch.device) -> ProcessGroup | None:
        """What torchrun's environment says; None for a process by itself.

        Raises:
            DistributedError: the others cannot be reached.
        """
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size < 2 or "RANK" not in os.environ:
            return None
        rank = int(os.environ["RANK"])
        if device.type == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        # torchrun may keep its store when it starts processes again; what the lost ones wrote there
        # must not be taken for the new ones'.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        try:
            store, _, _ = next(rendezvous("env://", rank, size, timeout=PATIENCE))
            dist.init_process_group(
                "nccl" if device.type == "cuda" else "gloo", rank=rank, world_size=size,
                timeout=SLOWEST, store=PrefixStore(f"seqattn/{attempt}", store),
            )  # fmt: skip
        except (RuntimeError, ValueError) as error:
            raise DistributedError(
                f"process {rank} of {size} cannot reach the others: {error}"
            ) from None
        return cls(rank, size, device)

    def end(self) -> None:
        with contextlib.suppress(Exception):  # it may be gone already
            dist.destroy_process_group()

    def share(self, n: int) -> slice:
        """This process's part of n sequences; empty where there are fewer than processes."""
        return slice(self.rank * n // self.size, (self.rank + 1) * n // self.size)

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place.

        Raises:
            DistributedError: one of them is lost.
        """
        with self._heard():
            dist.all_reduce(tensor)
        return tensor

    def agree(self, told_to_stop: bool, due: bool) -> tuple[bool, bool]:
        """Stop if any is told to; save when the first finds it due, by its clock.

        Raises:
            DistributedError: one of them is lost.
        """
        said = torch.tensor([told_to_stop, due and self.rank == 0], dtype=torch.uint8)
        said = said.to(self.device)
        with self._heard():
            dist.all_reduce(said, dist.ReduceOp.MAX)
        stop, save = said.tolist()
        self.stopped = self.stopped or bool(stop)
        return bool(stop), bool(save)

    @contextlib.contextmanager
    def beginning(self) -> Iterator[None]:
        """Until all have agreed: a process that fails tells the others, so that none waits."""
        try:
            yield
        except SeqattnError:
            if not self.agreed:
                with contextlib.suppress(DistributedError):
                    self.compare(None, None)
            raise

    def compare(self, config: str | None, data: bytes | None) -> None:
        """Hold what each process is about to train against what the others are.

        Args:
            config: None where this process failed.
            data: a digest.

        Raises:
            DistributedError: they differ, or one has failed.
        """
        self.agreed = True
        own = FAILED
        if config is not None and data is not None:
            own = hashlib.sha256(config.encode()).digest() + hashlib.sha256(data).digest()
        mine = torch.frombuffer(bytearray(own), dtype=torch.uint8).to(self.device)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        with self._heard():
            dist.all_gather(found, mine)
        said = [bytes(each.cpu().numpy()) for each in found]
        failed = [rank for rank, each in enumerate(said) if each == FAILED]
        if failed and own != FAILED:
            raise DistributedError(
                f"process {failed[0]} of {self.size} could not begin; it says why."
            )
        for place, what in ((slice(0, 32), "config"), (slice(32, 64), "set of data")):
            others = [rank for rank, each in enumerate(said) if each[place] != said[0][place]]
            if others and not failed:
                raise DistributedError(
                    f"process {others[0]} of {self.size} has another {what} than process 0. Give"
                    " all the same files."
                )

    def broadcast(self, content: bytes) -> bytes:
        """What the first process has, in all of them.

        Raises:
            DistributedError: one of them is lost.
        """
        length = torch.tensor([len(content)], dtype=torch.int64, device=self.device)
        with self._heard():
            dist.broadcast(length, 0)
            size = int(length)
            if size == 0:
                return NOTHING
            raw = bytearray(content if self.rank == 0 else size)
            tensor = torch.frombuffer(raw, dtype=torch.uint8).to(self.device)
            dist.broadcast(tensor, 0)
        return bytes(tensor.cpu().numpy())

    @contextlib.contextmanager
    def _heard(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            first = (str(error).strip() or "no reason given").splitlines()[0][:200]
            raise DistributedError(
                f"process {self.rank} of {self.size} lost the others: {first}"
            ) from None
