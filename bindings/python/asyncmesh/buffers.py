"""Where an array lives: NumPy arrays and torch tensors without copying and without importing either.

Shapes are free, storage must be dense (C order). dtypes: float32, bfloat16, float16, int64, uint8.
"""
FLOAT32, BFLOAT16, FLOAT16, INT64, UINT8 = range(5)
ITEM_BYTES = {FLOAT32: 4, BFLOAT16: 2, FLOAT16: 2, INT64: 8, UINT8: 1}
_DTYPES = {'float32': FLOAT32, 'bfloat16': BFLOAT16, 'float16': FLOAT16, 'int64': INT64, 'uint8': UINT8}


def dtype_code(array):
    name = str(array.dtype).rsplit('.', 1)[-1]
    if name not in _DTYPES:
        raise TypeError(f'dtype {array.dtype} is not supported; use one of {", ".join(_DTYPES)}')
    return _DTYPES[name]


class Span:
    """Address, element count, dtype and device of one dense array; keeps the array alive."""

    __slots__ = ('array', 'address', 'count', 'dtype', 'device', 'shape')

    def __init__(self, array):
        if not hasattr(array, 'data_ptr') and not hasattr(array, '__array_interface__'):
            raise TypeError(f'expected a NumPy array or a torch tensor, got {type(array).__name__}')
        self.array = array
        self.dtype = dtype_code(array)
        self.shape = tuple(array.shape)
        self.device = -1
        if hasattr(array, 'data_ptr'):  # torch.Tensor
            if not array.is_contiguous():
                raise ValueError(f'a tensor of shape {self.shape} is not contiguous')
            self.address, self.count = array.data_ptr(), array.numel()
            if array.device.type == 'cuda':
                self.device = array.device.index or 0
            elif array.device.type != 'cpu':
                raise ValueError(f'device {array.device} is not supported')
        else:  # numpy.ndarray
            if not array.flags['C_CONTIGUOUS']:
                raise ValueError(f'an array of shape {self.shape} is not C-contiguous')
            self.address, self.count = array.ctypes.data, array.size

    @property
    def bytes(self):
        return self.count * ITEM_BYTES[self.dtype]
