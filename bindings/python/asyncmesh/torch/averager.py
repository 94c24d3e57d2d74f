"""The averager over a list of torch parameters."""
import torch

from ..averaging import Averager, Region


def written(tensors):
    """Tells autograd that C code wrote these tensors, so that a backward through their old values raises instead of being wrong."""
    torch.autograd.graph.increment_version(tensors)


class ParameterAverager:
    """Averages float32 parameters over the replicas of this rank's stage; settings as of `asyncmesh.Averager`.

    Call it between the optimiser step and the next forward. Parameters that moved (module.to, assign=True) are followed.
    """

    def __init__(self, mesh, parameters, **settings):
        self.parameters = [p for p in parameters if p.requires_grad]
        self.region = Region(mesh.context, [p.detach() for p in self.parameters])
        self.averager = Averager(mesh, self.region, **settings)

    def _follow(self):
        if any(p.data_ptr() != s.address for p, s in zip(self.parameters, self.region.spans)):
            self.region.rebind([p.detach() for p in self.parameters])

    def __call__(self, progress=0.0, weight=1.0, timeout=None):
        """One averager call; returns its result (see `Averager.call`)."""
        self._follow()
        result = self.averager.call(progress, weight, timeout=timeout)
        if result.applied:
            written(self.parameters)
        return result

    def broadcast(self, source=0, timeout=None):
        self._follow()
        self.averager.broadcast(source, timeout=timeout)
        written(self.parameters)

    def finish(self, timeout=None):
        """Ends averaging: the parameters are the replicas' mean, bitwise equal everywhere."""
        self._follow()
        self.averager.finish(timeout)
        written(self.parameters)
