"""The averager over a list of torch parameters."""
import torch

from ..averaging import Averager, Region


def written(tensors):
    """Tells autograd that C code wrote these tensors, so that a backward through their old values raises instead of being wrong."""
    torch.autograd.graph.increment_version(tensors)


class ParameterAverager:
    """Sparse asynchronous averaging, (3.1)-(3.4) of the method, of parameters over the replicas of this rank's stage.

    parameters: iterable of dense tensors of any shape, all float32 (or all bfloat16 or float16: no masters, every write is rounded to them), in the
    same order and of the same shapes on all replicas; those without requires_grad are left out. settings: as of `asyncmesh.Averager`. Collective
    over the replicas. Call it between the optimiser step and the next forward: what it writes counts in the version counters, so autograd raises
    when a backward needs the old values. Parameters that moved (module.to, a new .data) are followed. Timeouts are in seconds, None waits for
    ever, and the loss of a peer ends every wait.

    Raises Mismatch (another replica's table or settings differ), InvalidArgument (an unstable setting: the text has the limit and the
    remedy; another dtype, or several), ValueError (a tensor with gaps).
    """

    def __init__(self, mesh, parameters, **settings):
        self.parameters = [p for p in parameters if p.requires_grad]
        self.region = Region(mesh.context, [p.detach() for p in self.parameters])
        self.averager = Averager(mesh, self.region, **settings)

    def _follow(self):
        if any(p.data_ptr() != s.address for p, s in zip(self.parameters, self.region.spans)):
            self.region.rebind([p.detach() for p in self.parameters])

    def __call__(self, progress=0.0, weight=1.0, timeout=None):
        """After each optimiser step. progress: of the training, 0..1, for the momentum (3.4); weight: of this replica in the round it starts, 0
        only receives. Waits in deterministic mode only. Returns the C result struct, overwritten by the next call: rounds started, applied,
        skipped and open; age of the last one applied in rounds, calls and ns; time_ns, wait_ns, bytes_posted.
        Raises Timeout (repeat the call), PeerLost, InvalidState after `finish`."""
        self._follow()
        result = self.averager.call(progress, weight, timeout=timeout)
        if result.applied:
            written(self.parameters)
        return result

    def broadcast(self, source=0, timeout=None):
        """All replicas take the values of replica `source`. Collective. Raises Timeout, PeerLost."""
        self._follow()
        self.averager.broadcast(source, timeout=timeout)
        written(self.parameters)

    def finish(self, timeout=None):
        """Ends averaging: the parameters are the replicas' mean, bitwise equal everywhere. Replicas may come at different times. Raises Timeout, PeerLost."""
        self._follow()
        self.averager.finish(timeout)
        written(self.parameters)
