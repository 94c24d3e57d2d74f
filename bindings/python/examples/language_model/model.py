"""A byte-level GPT, cut into pipeline stages."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 256


@dataclass
class Shape:
    """Sizes of the model and of one micro-batch."""
    width: int = 96
    layers: int = 4
    heads: int = 4
    context: int = 64
    batch: int = 8


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GptStage(nn.Module):
    """Stage `stage` of `stages`: embeddings on the first, head on the last, an equal share of the blocks on each.

    In: bytes (batch, context) int64 on the first stage, else activations (batch, context, width) float32. Out: activations, or logits on the last.
    """

    def __init__(self, shape, stages, stage):
        super().__init__()
        self.first, self.last = stage == 0, stage == stages - 1
        if self.first:
            self.token, self.position = nn.Embedding(VOCABULARY, shape.width), nn.Embedding(shape.context, shape.width)
            nn.init.normal_(self.token.weight, std=.02)
            nn.init.normal_(self.position.weight, std=.02)
        self.blocks = nn.ModuleList([Block(shape) for _ in range(shape.layers // stages)])
        if self.last:
            self.norm, self.head = nn.LayerNorm(shape.width), nn.Linear(shape.width, VOCABULARY, bias=False)
            nn.init.normal_(self.head.weight, std=.02)

    def forward(self, x):
        if self.first:
            x = self.token(x) + self.position.weight[:x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.last else x


def build_stage(shape, stages, stage, seed):
    """This stage with the weights that `seed` gives the whole model, whoever builds it."""
    torch.manual_seed(seed)
    return [GptStage(shape, stages, s) for s in range(stages)][stage]


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))
