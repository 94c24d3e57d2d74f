"""What is particular to PyTorch: parameters as regions, version counters, weight stash, autograd of a pipeline stage.

    averager = asyncmesh.torch.ParameterAverager(mesh, model.parameters())      # any torch optimiser
    optimiser = asyncmesh.torch.NAdamW(context, model.parameters(), lr=1e-3)     # look-ahead, (4.3) of the method
    pipeline = asyncmesh.torch.PipelineStage(mesh, module, optimiser settings ...) # channels, stash, averager, all together
"""
from .averager import ParameterAverager
from .optimiser import NAdamW, momentum_decay
from .pipeline import PipelineStage
from .stash import Stash

__all__ = ['NAdamW', 'ParameterAverager', 'PipelineStage', 'Stash', 'momentum_decay']
