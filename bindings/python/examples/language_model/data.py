"""Text as bytes: files split into training and validation by file, batches drawn from seeded streams."""
import glob
import os
import sysconfig

import numpy
import torch


def default_files():
    """Source text of the Python standard library that runs this."""
    root = sysconfig.get_paths()['stdlib']
    return sorted(glob.glob(root + '/*.py')) + sorted(glob.glob(root + '/[a-e]*/*.py'))


def _read(paths):
    pieces = []
    for path in paths:
        with open(path, 'rb') as file:
            pieces.append(file.read())
    return torch.from_numpy(numpy.frombuffer(b''.join(pieces), numpy.uint8).astype(numpy.int64))


def load(path=None):
    """(training, validation) as int64 tensors of bytes. A directory: every 10th file validates. One file: its last tenth does, which is never
    trained on. None: the standard library."""
    if path and not os.path.exists(path):
        raise SystemExit(f'{path}: no such file or directory')
    if path and os.path.isfile(path):
        text = _read([path])
        cut = len(text) * 9 // 10
        train, validation = text[:cut], text[cut:]
    else:
        files = sorted(p for p in glob.glob(path + '/**/*', recursive=True) if os.path.isfile(p)) if path else default_files()
        train = _read([p for i, p in enumerate(files) if i % 10])
        validation = _read(files[::10])
    if min(len(train), len(validation)) < 1024:
        raise SystemExit(f'too little text in {path or "the standard library"}: {len(train)} bytes to train on, {len(validation)} to validate')
    return train, validation


class Stream:
    """Batches (x, y), each (batch, context) int64, in the order that `seed` fixes; y is x one byte later."""

    def __init__(self, text, shape, seed):
        self.text, self.shape = text, shape
        self.generator = torch.Generator().manual_seed(seed)
        self._next, self._drawn = 0, {}

    def draw(self):
        starts = torch.randint(len(self.text) - self.shape.context - 1, (self.shape.batch,), generator=self.generator)
        rows = torch.stack([self.text[j:j + self.shape.context + 1] for j in starts])
        return rows[:, :-1], rows[:, 1:]

    def batch(self, k):
        """Batch number k; each number once, numbers in any order that stays within a few of each other."""
        while self._next <= k:
            self._drawn[self._next] = self.draw()
            self._next += 1
        return self._drawn.pop(k)


def validation_batches(text, shape, count, seed=7):
    stream = Stream(text, shape, seed)
    return [stream.draw() for _ in range(count)]
