"""NAdamW with the library's fused step, as a torch optimiser."""
import torch

from ..averaging import Optimiser, Region
from .averager import written


def momentum_decay(steps):
    """psi of (4.3) for a run of `steps` updates: the look-ahead's own warm-up (1 / psi updates) takes 1/60 of the run;
    never below 0.004, the value for long runs."""
    return max(0.004, 60.0 / max(1, steps))


class NAdamW(torch.optim.Optimizer):
    """NAdamW, (4.3) of the method, in one fused pass: torch.optim.NAdam(decoupled_weight_decay=True), with momentum_decay = psi.

    parameters: dense CPU tensors, all float32 (or all bfloat16 or float16: steps below half their spacing are lost), or groups with their own lr and
    weight_decay; a group's lr counts relative to the first group's, as it was here. betas, eps, psi and look_ahead hold for all; look_ahead=False
    gives AdamW. Gradients are allocated here and keep their addresses; a parameter whose gradient is None raises TypeError at `step`.
    """

    def __init__(self, context, parameters, lr=1e-3, betas=(.99, .999), eps=1e-8, weight_decay=.01, psi=.004, look_ahead=True):
        super().__init__(parameters, dict(lr=lr, weight_decay=weight_decay))
        self._all = [p for group in self.param_groups for p in group['params']]
        for p in self._all:
            p.grad = torch.zeros_like(p, memory_format=torch.contiguous_format)
        base = self.param_groups[0]['lr']
        decay = [g['weight_decay'] for g in self.param_groups for _ in g['params']]
        scale = [g['lr'] / base for g in self.param_groups for _ in g['params']]
        self.weights = Region(context, [p.detach() for p in self._all])
        self.gradients = Region(context, [p.grad for p in self._all])
        self.optimiser = Optimiser(self.weights, self.gradients, decay, scale, beta1=betas[0], beta2=betas[1], epsilon=eps, psi=psi,
                                   look_ahead=int(look_ahead))

    def zero_grad(self, set_to_none=False):
        """Zeroes in place: the gradients keep their addresses."""
        for p in self._all:
            if p.grad is None:
                p.grad = torch.zeros_like(p, memory_format=torch.contiguous_format)
            else:
                p.grad.zero_()

    def state_dict(self):
        """torch's, and the library's moments and step count as bytes under 'asyncmesh' (uint8 tensor)."""
        return dict(super().state_dict(), asyncmesh=torch.frombuffer(bytearray(self.optimiser.save()), dtype=torch.uint8))

    def load_state_dict(self, state_dict):
        """The same parameters in the same order; Mismatch otherwise. Settings of the library (betas, eps, decay) stay those of this object."""
        self.optimiser.load(bytes(state_dict['asyncmesh'].numpy()))
        super().load_state_dict({name: value for name, value in state_dict.items() if name != 'asyncmesh'})

    @torch.no_grad()
    def step(self, closure=None, clip_norm=0.0, gradient_scale=1.0):
        """One update. gradient_scale multiplies the gradients first (1 / loss scale, 1 / micro-batches), then clip_norm > 0 clips by the norm of all of
        them. Returns the scaled norm before clipping, or the closure's loss if one is given. Raises InvalidArgument, with nothing changed, where
        that norm is not finite."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for index, p in enumerate(self._all):
            if p.grad is None:
                raise TypeError(f'parameter {index} of shape {tuple(p.shape)} has no gradient; zero_grad() of this optimiser keeps them')
        for region, tensors in ((self.weights, self._all), (self.gradients, [p.grad for p in self._all])):
            if any(t.data_ptr() != s.address for t, s in zip(tensors, region.spans)):
                region.rebind([t.detach() for t in tensors])
        norm = self.optimiser.step(self.param_groups[0]['lr'], gradient_scale, clip_norm)
        written(self._all)
        return norm if closure is None else loss
