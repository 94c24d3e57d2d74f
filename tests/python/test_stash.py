"""Weight versions: each forward and its backward on the version it began with."""
import pytest
import torch

from asyncmesh.torch import Stash


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.embed(x))


def write(stash, slot, value):
    """What the optimiser does: the newest weights and their slot."""
    with torch.no_grad():
        for p, q in zip(stash.parameters, stash._slots[slot]):
            p.fill_(value)
            q.fill_(value)
    stash.wrote(slot)


def test_a_forward_sees_its_version_and_the_next_one_the_next(alone):
    stash = Stash(alone[0], torch.nn.Linear(4, 1, bias=False), 2)
    for slot, value in ((0, 1.), (1, 2.)):
        write(stash, slot, value)
    assert [stash.forward(slot, torch.ones(1, 4)).item() for slot in (0, 1)] == [4., 8.]
    assert stash.module(torch.ones(1, 4)).item() == 8.


def test_all_versions_add_up_in_one_gradient(alone):
    stash = Stash(alone[0], torch.nn.Linear(4, 1, bias=False), 2)
    for slot in (0, 1):
        write(stash, slot, 1.)
        stash.forward(slot, torch.ones(1, 4)).sum().backward()
    assert torch.equal(stash.gradient, torch.full((4,), 2.))


def test_a_version_that_is_overwritten_too_early_makes_backward_raise(alone):
    stash = Stash(alone[0], torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)), 2)
    output = stash.forward(0, torch.ones(1, 4))
    write(stash, 0, 1.)
    with pytest.raises(RuntimeError, match='modified by an inplace operation'):
        output.sum().backward()


@pytest.mark.parametrize('ring', [1, 3])
def test_a_tied_parameter_is_one_parameter_in_every_version(alone, ring):
    module, plain = Tied(), Tied()
    plain.load_state_dict(module.state_dict())
    stash = Stash(alone[0], module, ring)
    assert stash.weights.elements == 16 * 8
    x = torch.tensor([[1, 2, 3]])
    stash.forward(ring - 1, x).square().sum().backward()
    plain(x).square().sum().backward()
    assert torch.equal(stash.gradient.view(16, 8), plain.embed.weight.grad)


def test_reset_gives_every_version_the_newest_weights(alone):
    stash = Stash(alone[0], torch.nn.Linear(4, 1), 3)
    write(stash, 0, 5.)
    stash.reset()
    assert [stash.forward(slot, torch.ones(1, 4)).item() for slot in range(3)] == [25.] * 3


def test_a_frozen_parameter_stays_as_it_is(alone):
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    module[0].weight.requires_grad_(False)
    stash = Stash(alone[0], module, 2)
    assert stash.weights.elements == 4 + 4 + 1
    stash.forward(1, torch.ones(1, 4)).sum().backward()
    assert module[0].weight.grad is None and stash.gradient.abs().sum() > 0
