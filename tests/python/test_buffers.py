"""Which arrays are taken, and that they are not copied."""
import numpy
import pytest
import torch

import asyncmesh
from asyncmesh.buffers import FLOAT32, Span


def test_numpy_and_torch_spans_point_at_the_data():
    array, tensor = numpy.zeros((3, 4), numpy.float32), torch.zeros(3, 4)
    assert (Span(array).address, Span(array).count, Span(array).dtype) == (array.ctypes.data, 12, FLOAT32)
    assert (Span(tensor).address, Span(tensor).count, Span(tensor).dtype) == (tensor.data_ptr(), 12, FLOAT32)
    assert Span(tensor).shape == (3, 4) and Span(tensor).device == -1


def test_a_span_of_a_view_starts_at_the_view():
    tensor = torch.arange(12.)
    assert Span(tensor[4:8]).address == tensor.data_ptr() + 16
    assert Span(tensor[4:8]).count == 4


@pytest.mark.parametrize('array', [numpy.zeros((4, 4), numpy.float32)[:, ::2], numpy.zeros((4, 4), numpy.float32).T[1:],
                                   torch.zeros(4, 4)[:, ::2], torch.zeros(4, 4).t()[1:]], ids=['numpy', 'numpy.T', 'torch', 'torch.t'])
def test_storage_with_gaps_is_refused(array):
    with pytest.raises(ValueError, match='contiguous'):
        Span(array)


@pytest.mark.parametrize('array', [numpy.zeros(4, numpy.complex64), torch.zeros(4, dtype=torch.int16), torch.zeros(4, dtype=torch.bool)],
                         ids=lambda a: str(a.dtype))
def test_an_unknown_dtype_is_refused(array):
    with pytest.raises(TypeError, match='not supported'):
        Span(array)


def test_a_device_without_memory_is_refused():
    with pytest.raises(ValueError, match='meta'):
        Span(torch.zeros(4, device='meta'))


@pytest.mark.parametrize('thing', [[1.0, 2.0], 3.0, None, 'text'], ids=repr)
def test_what_is_no_array_is_refused(thing):
    with pytest.raises(TypeError, match=f'got {type(thing).__name__}'):
        Span(thing)


def test_a_region_keeps_its_arrays_alive(alone):
    import gc
    import weakref
    context, _ = alone
    tensor = torch.zeros(64)
    ghost = weakref.ref(tensor)
    region = asyncmesh.Region(context, [tensor])
    del tensor
    gc.collect()
    assert ghost() is not None
    region.close()


def test_a_read_only_array_cannot_be_a_parameter(alone):
    values = numpy.zeros(64, numpy.float32)
    values.flags.writeable = False
    with pytest.raises(ValueError, match='read-only'):
        asyncmesh.Region(alone[0], [values])


@pytest.mark.parametrize('arrays', [[], [numpy.zeros(0, numpy.float32)]], ids=['no tensors', 'no elements'])
def test_an_empty_region_is_refused(alone, arrays):
    with pytest.raises(asyncmesh.InvalidArgument):
        asyncmesh.Region(alone[0], arrays)


def test_tensors_that_overlap_are_refused(alone):
    values = torch.zeros(64)
    with pytest.raises(asyncmesh.InvalidArgument, match='overlap'):
        asyncmesh.Region(alone[0], [values, values[32:]])


@pytest.mark.parametrize('dtypes, text', [((torch.int64,), 'tensor 0 is none of'), ((torch.float32, torch.uint8), 'tensor 1 is none of'),
                                          ((torch.float32, torch.bfloat16), 'tensors 0 and 1 have different dtypes')], ids=str)
def test_a_table_has_one_floating_dtype(alone, dtypes, text):
    context, mesh = alone
    region = asyncmesh.Region(context, [torch.zeros(64, dtype=dtype) for dtype in dtypes])
    with pytest.raises(asyncmesh.InvalidArgument, match=text):
        asyncmesh.Averager(mesh, region)
    with pytest.raises(asyncmesh.InvalidArgument, match=text):
        asyncmesh.Optimiser(region, region)


def test_gradients_are_stored_as_the_weights_are(alone):
    weights, gradients = (asyncmesh.Region(alone[0], [torch.zeros(64, dtype=dtype)]) for dtype in (torch.float32, torch.bfloat16))
    with pytest.raises(asyncmesh.InvalidArgument, match='different formats'):
        asyncmesh.Optimiser(weights, gradients)


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_mirror_of_any_floating_dtype_receives_the_nearest(alone, dtype):
    context, _ = alone
    weights, gradients = torch.randn(1000), torch.randn(1000)
    mirror = torch.zeros(1000, dtype=dtype)
    optimiser = asyncmesh.Optimiser(asyncmesh.Region(context, [weights]), asyncmesh.Region(context, [gradients]))
    for skip in (True, False):
        optimiser.step(.1, skip=skip, mirror=asyncmesh.Region(context, [mirror]))
        assert torch.equal(mirror, weights.to(dtype))


def test_an_optimiser_needs_gradients_of_the_weights_layout(alone):
    context, _ = alone
    weights = asyncmesh.Region(context, [torch.zeros(64), torch.zeros(8)])
    with pytest.raises(asyncmesh.Error):
        asyncmesh.Optimiser(weights, asyncmesh.Region(context, [torch.zeros(72)]))
    with pytest.raises(asyncmesh.Error):
        asyncmesh.Optimiser(weights, asyncmesh.Region(context, [torch.zeros(64), torch.zeros(9)]))


def test_a_rebind_to_another_layout_is_a_mismatch(alone):
    region = asyncmesh.Region(alone[0], [torch.zeros(64)])
    with pytest.raises(asyncmesh.Mismatch):
        region.rebind([torch.zeros(65)])
    region.rebind([torch.ones(64)])
