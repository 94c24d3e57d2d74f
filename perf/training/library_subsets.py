"""The library's own subsets, for a serial implementation that is to follow a mesh."""
import json
import os

import common  # noqa: F401  (paths)
import asyncmesh
from language_model.model import Shape, build_stage


class Subsets:
    """Part numbers as every rank of a mesh of `stages` stages computes them; from a world of one, since they depend on the table and the settings only."""

    def __init__(self, shape, averaging, stages=2):
        self._context = asyncmesh.Context()
        self._mesh = asyncmesh.Mesh(self._context, rank=0, replicas=1, stages=1, url='')
        self._modules = [build_stage(shape, stages, stage, 0) for stage in range(stages)]
        self._averagers = [asyncmesh.Averager(self._mesh, asyncmesh.Region(self._context, [p.detach() for p in module.parameters()]), **averaging)
                           for module in self._modules]

    def __call__(self, stage, cycle):
        """Part number of each element of a stage in that cycle: uint32 array."""
        return self._averagers[stage].partition(cycle)


_subsets = None


def part_numbers(elements, partitions, cycle, stage):
    """For --partition library_subsets:part_numbers of an external reference; the settings come from ASYNCMESH_SUBSETS (JSON)."""
    global _subsets
    if _subsets is None:
        settings = json.loads(os.environ['ASYNCMESH_SUBSETS'])
        _subsets = Subsets(Shape(**settings['shape']), settings['averaging'])
    parts = _subsets(stage, cycle)
    if len(parts) != elements or int(parts.max()) + 1 != partitions:
        raise ValueError(f'the library has {len(parts)} elements in {int(parts.max()) + 1} parts, the reference {elements} in {partitions}')
    return parts.astype('int64')
