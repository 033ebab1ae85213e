"""The processes of a run: who this one is, and what it exchanges with the others.

Flows in: what ``accelerate launch`` put into the environment. Flows out: a ``World``. With one
process every method returns its argument, and torch's distributed package is not touched.
Not handled here: what is computed where (``proverrl.learner.learner``, ``proverrl.run.follow``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from proverrl.concurrency import give_back_freed_memory
from proverrl.config.training import ShardName
from proverrl.errors import PeerError, ProverRLError, UsageError

T = TypeVar("T")

LOST = "another process of this run has ended, and its output says why; this one ends too"

PATIENCE = timedelta(days=1)
"""Seconds that a process waits for another: rank 0 may judge for hours."""

WARN_SECONDS = 600.0
"""After so long a process that waits says so."""

GRACE_SECONDS = 30.0
"""A process that has lost another one has so long to end in order."""

BUCKET_BYTES = 2**26
"""Gradients that are summed in one message; a weight of more than that goes alone."""


def prepare_process(threads: int) -> None:
    """What a process does before it runs a model: torch gets so many threads (0: as it chooses),
    and memory that is freed goes back to the system."""
    give_back_freed_memory()
    if threads:
        torch.set_num_threads(threads)


class World:
    """``size`` processes of which this is number ``rank``. Rank 0 leads: it alone has problems,
    verifiers and the run folder's files. Every process must make the same calls in the same order.
    """

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        objects: Any = None,
        watch: _Watch | None = None,
    ) -> None:
        self.watch = watch
        self.rank = rank
        self.size = size
        # Objects go over gloo, also between GPUs: then no thread needs to know its device.
        self._objects = objects

    @property
    def leads(self) -> bool:
        """True in the process that all others follow."""
        return self.rank == 0

    def split(self) -> World:
        """The same processes in a group of their own, for objects that one thread of each exchanges
        while another exchanges others here. Called by all at the same time."""
        if self.size == 1:
            return self
        group = torch.distributed.new_group(backend="gloo", timeout=PATIENCE)
        return World(self.rank, self.size, group)

    def share(self, value: T | None) -> T:
        """Rank 0's value, on every process; the others give None."""
        if self.size == 1:
            return cast("T", value)
        box: list[Any] = [value]
        with self._waiting():
            torch.distributed.broadcast_object_list(box, src=0, group=self._objects)
        return cast("T", box[0])

    def gather(self, value: T) -> list[T]:
        """The values of all processes, in the order of their ranks, on every process."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        with self._waiting():
            torch.distributed.all_gather_object(found, value, group=self._objects)
        return found

    def sum_gradients(self, weights: Sequence[Tensor]) -> None:
        """Put the sum over all processes into each gradient, in float32 and in messages of about
        ``BUCKET_BYTES``, which is all that is copied; a missing gradient counts as 0."""
        if self.size == 1:
            return
        bucket: list[Tensor] = []
        for weight in weights:
            bucket.append(weight)
            if sum(w.numel() for w in bucket) * 4 >= BUCKET_BYTES:
                self._sum_bucket(bucket)
                bucket = []
        if bucket:
            self._sum_bucket(bucket)

    def _sum_bucket(self, weights: Sequence[Tensor]) -> None:
        parts = [
            torch.zeros_like(w, dtype=torch.float32).flatten()
            if w.grad is None
            else w.grad.float().flatten()
            for w in weights
        ]
        flat = torch.cat(parts)
        with self._waiting():
            torch.distributed.all_reduce(flat)
            if flat.is_cuda:
                # Over NCCL the call returns at once, and what comes next would be said to wait.
                torch.cuda.current_stream().synchronize()
        for weight, part in zip(weights, torch.split(flat, [len(p) for p in parts]), strict=True):
            weight.grad = part.view_as(weight).to(weight.dtype)

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Around what waits for the other processes: says who waits where, if it takes long."""
        # Behind this generator and contextlib come the method that waits, and who called it.
        place = sys._getframe(3).f_code.co_qualname
        minutes = WARN_SECONDS / 60
        text = (
            f"process {self.rank} of {self.size} has waited {minutes:.0f} minutes in {place} for "
            "the others; their output says where they are"
        )
        timer = threading.Timer(WARN_SECONDS, warnings.warn, [text])
        timer.daemon = True
        timer.start()
        try:
            with _naming_the_lost():
                yield
        finally:
            timer.cancel()

    def push(self, weights: Iterable[Tensor]) -> None:
        """Overwrite the weights with rank 0's."""
        if self.size > 1:
            with self._waiting():
                for weight in weights:
                    torch.distributed.broadcast(weight.data, src=0)
                    # Nobody counts what is written through ``data``, and engines that hold copies
                    # look at the count.
                    torch.autograd.graph.increment_version(weight)

    def shard(
        self, items: Sequence[T], size: Callable[[T], int], rank: int | None = None
    ) -> list[T]:
        """The items of this process (or of ``rank``), in their order; all shares have similar sums
        of ``size`` (``deal``), the same on every process."""
        if self.size == 1:
            return list(items)
        owners, _ = deal([size(item) for item in items], self.size)
        mine = self.rank if rank is None else rank
        return [item for item, owner in zip(items, owners, strict=True) if owner == mine]

    def check_same(self, weights: Iterable[Tensor]) -> str:
        """The SHA-256 of the weights, which must be that of every process. Raises ``ProverRLError``
        if the processes have different weights."""
        found = self.gather(checksum(weights))
        if len(set(found)) > 1:
            shown = ", ".join(f"rank {rank}: {value[:12]}" for rank, value in enumerate(found))
            raise ProverRLError(f"the processes have different weights ({shown}); stopping")
        return found[0]


SINGLE = World()


def deal(sizes: Sequence[int], shares: int) -> tuple[list[int], list[int]]:
    """Whose each item is, and what each share sums up to: the largest item first, to the lightest
    share. The largest share is at most 4/3 of the smallest that is possible (Graham 1969, "Bounds
    on multiprocessing timing anomalies")."""
    loads = [0] * shares
    owners = [0] * len(sizes)
    for index in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        owners[index] = loads.index(min(loads))
        loads[owners[index]] += sizes[index]
    return owners, loads


@contextlib.contextmanager
def _naming_the_lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        # Gloo has no class of its own for a connection that was closed.
        if "gloo/transport" not in str(error):
            raise
        raise PeerError(LOST) from error


class _Watch:
    """Ends this process when another one is lost, whatever waits for it here.

    Gloo fails what waits to receive when a connection closes, but not a message that is partly sent
    or was begun in the moment before: that waits for ever. So rank 0 and each other process also
    wait, in a thread, for a farewell of each other, which nobody sends before the end. Not heard of
    is a machine that is cut off, since that closes no connection."""

    def __init__(self, rank: int, size: int) -> None:
        self._group = torch.distributed.new_group(backend="gloo", timeout=PATIENCE)
        self._others = [0] if rank else range(1, size)
        self._threads = [
            threading.Thread(target=self._wait, args=[other], daemon=True) for other in self._others
        ]
        for thread in self._threads:
            thread.start()

    def _wait(self, other: int) -> None:
        try:
            farewell = torch.zeros(1)
            work = torch.distributed.irecv(farewell, src=other, group=self._group)
            assert work is not None
            # No run takes ten years.
            work.wait(timedelta(days=3650))
        except RuntimeError:
            # A thread that hears of it from gloo says so itself, and ends with the same status.
            time.sleep(GRACE_SECONDS)
            sys.stdout.flush()
            print(f"error: {LOST}", file=sys.stderr, flush=True)
            os._exit(3)

    def close(self) -> None:
        """Say farewell, and wait for that of the others."""
        for other in self._others:
            torch.distributed.send(torch.zeros(1), dst=other, group=self._group)
        for thread in self._threads:
            thread.join()


def checksum(weights: Iterable[Tensor]) -> str:
    """SHA-256 of the bytes of all weights in their order, as hexadecimal digits."""
    digest = hashlib.sha256()
    for weight in weights:
        data = weight.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest.update(data.numpy().tobytes())
    return digest.hexdigest()


def open_world(shard: ShardName = "none") -> World:
    """The processes that ``accelerate launch`` started; one if it did not. Raises ``UsageError`` if
    the launcher's configuration is not for ``learner.shard``."""
    if int(os.environ.get("WORLD_SIZE", "1")) <= 1:
        if shard != "none":
            raise UsageError(
                f"learner.shard = {shard!r} needs several processes and this is one; start with "
                "accelerate launch (docs/engines.md), or set learner.shard = 'none'"
            )
        return SINGLE
    _check_launcher(shard)
    from accelerate import PartialState

    use_cpu = _is_set("ACCELERATE_USE_CPU") or not torch.cuda.is_available()
    state = PartialState(cpu=use_cpu, timeout=PATIENCE)
    objects = torch.distributed.new_group(backend="gloo", timeout=PATIENCE)
    rank, size = state.process_index, state.num_processes
    return World(rank, size, objects, watch=_Watch(rank, size))


def _check_launcher(shard: ShardName) -> None:
    if not _is_set("ACCELERATE_USE_FSDP"):
        return
    if shard == "none":
        raise UsageError(
            "accelerate launch was configured for FSDP and learner.shard is 'none'; set "
            "learner.shard = 'fsdp2', or use configs/accelerate/ddp.yaml"
        )
    if os.environ.get("FSDP_VERSION", "1") != "2" or _is_set("FSDP_OFFLOAD_PARAMS"):
        raise UsageError(
            "accelerate launch was configured for FSDP 1 or for weights on the CPU, neither of "
            "which is done here; use configs/accelerate/fsdp2.yaml"
        )


def _is_set(name: str) -> bool:
    return os.environ.get(name, "false").lower() == "true"


def close_world(world: World) -> None:
    """Leave the group of processes, once all have got here."""
    if world.size > 1:
        with _naming_the_lost():
            torch.distributed.barrier(group=world._objects)
            if world.watch is not None:
                world.watch.close()
        torch.distributed.destroy_process_group()
