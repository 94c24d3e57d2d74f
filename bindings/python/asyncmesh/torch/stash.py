"""Weight versions of a pipeline stage: the newest at a fixed address, the older ones in sibling slots.

Forward k runs on the slot of its version by torch.func.functional_call, and so does its backward: nothing is recomputed, and a version that is
overwritten too early makes autograd raise. All slots accumulate into one set of gradient tensors.
"""
import torch

from ..averaging import Region
from .averager import written


def trainable(module):
    """The parameters that are trained and averaged; frozen ones (requires_grad False) stay as they are, on every rank its own."""
    return [p for p in module.parameters() if p.requires_grad]


class Stash:
    """`ring` versions of the trainable float32 parameters of `module`. With ring 1 the module's own parameters are the only version.

    weights, gradients: regions for the optimiser and the averager; mirror(slot): the region of one slot, None with ring 1.
    """

    def __init__(self, context, module, ring):
        self.module, self.ring = module, ring
        self.parameters = trainable(module)
        total = sum(p.numel() for p in self.parameters)
        self.gradient = torch.zeros(total)
        self._views, offset = [], 0
        for p in self.parameters:
            self._views.append(self.gradient[offset:offset + p.numel()].view_as(p))
            offset += p.numel()
        self.weights = Region(context, [p.detach() for p in self.parameters])
        self.gradients = Region(context, self._views)
        if ring == 1:
            self._slots, self._mirrors = [self.parameters], [None]
        else:
            self._slots = [[p.detach().clone().requires_grad_() for p in self.parameters] for _ in range(ring)]
            self._mirrors = [Region(context, [p.detach() for p in slot]) for slot in self._slots]
        # Every name of a tied parameter stands for the same tensor, so that functional_call need not search for ties at every forward.
        place = {p: index for index, p in enumerate(self.parameters)}
        names = [(name, place[p]) for name, p in module.named_parameters(remove_duplicate=False) if p.requires_grad]
        self._named = [{name: slot[index] for name, index in names} for slot in self._slots]
        for slot in self._slots:
            for p, view in zip(slot, self._views):
                p.grad = view

    def mirror(self, slot):
        return self._mirrors[slot]

    def forward(self, slot, *inputs):
        """The module's output on the weights in `slot`, with a graph."""
        if self.ring == 1:
            return self.module(*inputs)
        return torch.func.functional_call(self.module, self._named[slot], inputs, tie_weights=False)

    def wrote(self, slot):
        """The library wrote the newest weights and their slot."""
        written(self.parameters if self.ring == 1 else self.parameters + self._slots[slot])

    @torch.no_grad()
    def reset(self):
        """Every slot takes the newest weights (start, or after a broadcast)."""
        if self.ring > 1:
            for slot in self._slots:
                for p, newest in zip(slot, self.parameters):
                    p.copy_(newest)


class Scratch:
    """A second set of parameters for `module`: where the mean of the replicas goes for an evaluation."""

    def __init__(self, context, module):
        self.module = module
        self.tensors = {name: torch.empty_like(p, requires_grad=False) for name, p in module.named_parameters() if p.requires_grad}
        self.region = Region(context, list(self.tensors.values()))

    @torch.no_grad()
    def copy_from(self, parameters):
        for mine, other in zip(self.tensors.values(), parameters):
            mine.copy_(other)

    @torch.no_grad()
    def forward(self, x):
        return torch.func.functional_call(self.module, self.tensors, (x,))
