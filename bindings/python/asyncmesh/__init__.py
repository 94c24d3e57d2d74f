"""AsyncMesh: communication for training large models without waiting.

    context = asyncmesh.Context()                      # transports, progress thread
    mesh = asyncmesh.Mesh(context)                     # the other ranks (python -m asyncmesh.run, torchrun, Slurm, Open MPI)
    region = asyncmesh.Region(context, parameters)     # NumPy arrays or torch tensors, not copied
    averager = asyncmesh.Averager(mesh, region)
    ...
    averager.call(progress=step / steps)               # after each optimiser step; does not wait
    ...
    averager.finish()                                  # one model, bitwise equal on all replicas
    mesh.leave()

`asyncmesh.torch` holds what is particular to PyTorch. The contract of every call stands in asyncmesh.h.
"""
from ._c import functions as _functions
from .averaging import Averager, Optimiser, Region
from .errors import Canceled, Error, InvalidArgument, InvalidState, Mismatch, PeerLost, Refused, Timeout
from .mesh import Context, Mesh
from .pipeline import Port, Received, Stage

__version__ = _functions.version_string().decode()
__all__ = ['Averager', 'Canceled', 'Context', 'Error', 'InvalidArgument', 'InvalidState', 'Mesh', 'Mismatch', 'Optimiser', 'PeerLost',
           'Port', 'Received', 'Refused', 'Region', 'Stage', 'Timeout']
