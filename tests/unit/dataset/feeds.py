"""Loaders that go wrong in one way each; tried in a process of their own. Those of torch are made only where torch is."""

import ctypes
import os
import sys
import time


class Items:
    """A dataset by index, without torch."""

    samples = tuple((f"/set/img-{i}.jpg", 0) for i in range(40))

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return {"x": [index] * 3}


class Bad(Items):
    def __getitem__(self, index):
        if index % 10 == 3:
            raise ValueError(f"cannot identify image file 'img-{index}.jpg'")
        if index == 5:
            raise FileNotFoundError(2, "No such file or directory", "/set/img-5.jpg")
        return super().__getitem__(index)


class Stands(Items):
    def __getitem__(self, index):
        return self.read(index)

    def read(self, index):
        if index == 4:
            time.sleep(600)
        return index


class Slow(Items):
    def __getitem__(self, index):
        if index == 7:
            time.sleep(1.3)
        return index


class Dies(Items):
    def __getitem__(self, index):
        if index == 6:
            ctypes.string_at(0)
        return index


HELD = []


class Grows(Items):
    def __getitem__(self, index):
        HELD.append(b"\1" * (40 << 20))
        return index


class Same(Items):
    def __getitem__(self, index):
        return {"id": f"u{index % 30}", "x": index}


def fails():
    raise RuntimeError("no such split: trian")


def leaves():
    sys.exit(3)


def uneven(rank, world_size):
    """Rank 1 has one item fewer."""
    return ({"id": f"{rank}-{i}"} for i in range(5 - (rank == 1)))


def not_split():
    return ({"id": str(i)} for i in range(6))


def talks():
    os.write(1, b"spam\n" * 10000)
    return list(range(4))


if "torch" in sys.modules:
    from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, Sampler

    class Stream(IterableDataset):
        """Each worker gives all."""

        def __iter__(self):
            return iter([{"id": f"u{i}"} for i in range(20)])

    def bad_loader():
        return DataLoader(Bad(), batch_size=4, num_workers=2)

    def spawned():
        return DataLoader(Bad(), batch_size=4, num_workers=1, multiprocessing_context="spawn")

    def stands_loader():
        return DataLoader(Stands(), batch_size=2, num_workers=2)

    def split():
        return DataLoader(Items(), batch_size=4, sampler=DistributedSampler(Items(), drop_last=False))

    def stream():
        return DataLoader(Stream(), batch_size=4, num_workers=2)

    class Remembers(Sampler):
        """Shares what it holds with its shallow copies, as samplers do that keep their state in objects of their own."""

        def __init__(self, rank, world_size):
            self.held = {"rank": rank}
            self.world_size = world_size

        @property
        def rank(self):
            return self.held["rank"]

        @rank.setter
        def rank(self, rank):
            self.held["rank"] = rank

        def __iter__(self):
            return iter(range(self.rank, 40, self.world_size))

        def __len__(self):
            return 40 // self.world_size

    def remembers(rank, world_size):
        return DataLoader(Bad(), batch_size=1, sampler=Remembers(rank, world_size))

    def no_items():
        return DataLoader([], batch_size=4)
