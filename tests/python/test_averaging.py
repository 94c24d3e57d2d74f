import numpy

import asyncmesh
from ranks import run_ranks

ELEMENTS = 4096


def average_numpy(rank):
    context, mesh = rank.join()
    values = numpy.full(ELEMENTS, float(mesh.replica), numpy.float32)
    region = asyncmesh.Region(context, [values])
    averager = asyncmesh.Averager(mesh, region, mode='deterministic', window=2, fraction=.25, rule='average')
    for call in range(24):
        averager.call(call / 24)
    averager.finish(20)
    mesh.leave(10)
    return values


def test_replicas_end_with_one_vector():
    first, second = run_ranks(average_numpy, replicas=2)
    assert numpy.array_equal(first, second)
    assert numpy.allclose(first, .5)
