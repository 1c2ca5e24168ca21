"""Exports tiny, randomly initialised models with `torch.export`, each with inputs and PyTorch's own results.

`models.py DIR [NAME...]` writes DIR/NAME.pt2, DIR/NAME.in.npz and DIR/NAME.out.npz: arrays `arr_0`, `arr_1`, ... in the
order of the program's inputs and results. The results are those of the Python module itself: what it returns, behind
the buffers that it changes. The archives are packed, and what no reader of programs needs (example inputs, the history
of nodes, the machine's directories) is left out of them.
"""

import copy
import io
import json
import math
import pathlib
import re
import sys
import warnings
import zipfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH, HEADS, LENGTH = 48, 16, 4, 16


def tokens(*shape):
    return torch.randint(0, VOCABULARY, shape)


class Mlp(nn.Module):
    """Two layers and a loss."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 8)

    def forward(self, x, target):
        made = self.down(F.gelu(self.up(x)))
        return made, F.mse_loss(made, target)


class Attention(nn.Module):
    """Attention of several heads, of which those of keys and values may be fewer."""

    def __init__(self, kv_heads=HEADS, causal=False, fused=True, rotary=False, bias=True):
        super().__init__()
        self.kv_heads, self.causal, self.fused, self.rotary = kv_heads, causal, fused, rotary
        size = WIDTH // HEADS
        self.q = nn.Linear(WIDTH, WIDTH, bias=bias)
        self.k = nn.Linear(WIDTH, kv_heads * size, bias=bias)
        self.v = nn.Linear(WIDTH, kv_heads * size, bias=bias)
        self.o = nn.Linear(WIDTH, WIDTH, bias=bias)

    @torch.no_grad()
    def angles(self, length, size):
        frequency = 1.0 / (10000.0 ** (torch.arange(0, size, 2, dtype=torch.float32) / size))
        angle = torch.outer(torch.arange(length, dtype=torch.float32), frequency)
        angle = torch.cat([angle, angle], -1)
        return angle.cos(), angle.sin()

    def rotated(self, x):
        cos, sin = self.angles(x.shape[-2], x.shape[-1])
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    def forward(self, x, mask=None):
        batch, length, _ = x.shape
        q, k, v = (f(x).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2) for f in (self.q, self.k, self.v))
        if self.rotary:
            q, k = self.rotated(q), self.rotated(k)
        if self.fused:
            gqa = self.kv_heads != HEADS
            made = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal, enable_gqa=gqa)
        else:
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            if self.causal:
                scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
            made = (scores if mask is None else scores + mask).softmax(-1) @ v
        return self.o(made.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    """Attention and two layers, each behind its normalisation."""

    def __init__(self, causal, fused):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(causal=causal, fused=fused)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """GPT-2 with its output matrix tied, and the loss."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Block(causal=True, fused=False) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        logits = self.norm(x) @ self.tokens.weight.t()
        return logits, F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Bert(nn.Module):
    """An encoder with a mask of what is padding."""

    def __init__(self):
        super().__init__()
        self.tokens, self.types = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0), nn.Embedding(2, WIDTH)
        self.register_buffer("positions", torch.arange(LENGTH)[None], persistent=False)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(Block(causal=False, fused=True) for _ in range(2))
        self.pool, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, ids, mask):
        x = self.tokens(ids) + self.places(self.positions) + self.types(torch.zeros_like(ids))
        mask = (1.0 - mask[:, None, None, :].to(torch.float32)) * -1e4
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(torch.tanh(self.pool(x[:, 0])))


class LlamaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-6)
        self.attention = Attention(kv_heads=2, causal=True, rotary=True, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, 64, bias=False), nn.Linear(WIDTH, 64, bias=False)
        self.down = nn.Linear(64, WIDTH, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A decoder with grouped queries and rotary embeddings."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(LlamaBlock() for _ in range(2))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Vit(nn.Module):
    """An encoder of patches with a token for the class."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 8, stride=8)
        self.token, self.places = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 17, WIDTH))
        self.layers = nn.ModuleList(Block(causal=False, fused=True) for _ in range(2))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


class Bottleneck(nn.Module):
    def __init__(self, n, out, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(n, 8, 1, bias=False), nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, stride=stride, padding=1, groups=2, bias=False)
        self.norm2 = nn.BatchNorm2d(8)
        self.conv3, self.norm3 = nn.Conv2d(8, out, 1, bias=False), nn.BatchNorm2d(out)
        self.short = nn.Conv2d(n, out, 1, stride=stride)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + self.short(x))


class Resnet(nn.Module):
    """Convolutions, batch normalisation and both kinds of pooling; in training its statistics change."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layers = nn.Sequential(Bottleneck(8, 16, 1), Bottleneck(16, 32, 2))
        self.average, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(32, 10)

    def forward(self, images, labels):
        x = self.pool(F.relu(self.norm(self.stem(images))))
        scores = self.head(self.average(self.layers(x)).flatten(1))
        return scores, F.cross_entropy(scores, labels)


class Moe(nn.Module):
    """The two best of four experts for each token; each expert sees every token."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4, bias=False)
        self.up = nn.Parameter(torch.randn(4, WIDTH, 64) / 8)
        self.down = nn.Parameter(torch.randn(4, 64, WIDTH) / 8)

    def forward(self, x):
        weights, chosen = torch.topk(self.gate(x).softmax(-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        share = torch.zeros(*x.shape[:2], 4).scatter(-1, chosen, weights)
        hidden = F.silu(torch.einsum("bsd,edh->besh", x, self.up))
        return torch.einsum("besh,ehd,bse->bsd", hidden, self.down, share)


class Cache(nn.Module):
    """One step of decoding: a key is written to an input, and a count in a buffer goes up."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(3))
        self.key = nn.Linear(8, 8)

    def forward(self, x, cache, at):
        cache.index_put_((at,), self.key(x))
        self.count += 1
        return torch.softmax(x @ cache.t(), -1)


class Operators(nn.Module):
    """What the others lack: places, triangles, sums, types, parts."""

    def forward(self, x, ids):
        rows = x[ids]
        points = x[:, torch.tensor([0, 2])[:, None], torch.tensor([1, 3])]
        taken = x.gather(2, ids[:, None, None].expand(4, 6, 3) % 8)
        put = x.index_put((ids, torch.tensor([1, 0, 2, 5])), torch.ones(8), accumulate=True)
        largest, at = x.max(-1)
        ordered, order = x.sort(-1, descending=True)
        halves = x.to(torch.float64).sum((0, 2)).to(torch.int32) // 2
        parts = torch.cat([part * n for n, part in enumerate(x.split([1, 2, 3], 1))], 1)
        variance, mean = torch.var_mean(x, (0, 2), correction=1)
        return (
            rows + points.sum(1, keepdim=True).mean(-1, keepdim=True),
            taken.cumsum(1),
            put.tril(1) + x.triu(),
            largest + at,
            torch.where(ordered > 0, order.float() % 3, ordered.clamp(-1, 1)),
            halves,
            parts.flip(0).roll(2, 1),
            (x > 0).any(-1) & ~(x.abs() > 2).all(-1),
            variance.rsqrt() + mean.pow(3),
            F.pad(x, (1, 2, 0, 1), value=0.5)[:, ::2, -3:].amax(1),
            F.log_softmax(x, -1) + F.hardtanh(x) * F.elu(x) - x.remainder(0.7),
            F.avg_pool2d(x[None], 2) + F.max_pool2d(x[None], 3, stride=2, padding=1),
            torch.full_like(ids, 7) * (ids == 2) + torch.eye(4, dtype=torch.int64).argmax(1) - ids.argmin(),
            F.interpolate(x[None], scale_factor=2, mode="nearest")[0, :, 3],
            F.group_norm(x, 3).logsumexp(1) / torch.linspace(1, 2, 8),
            torch.stack(x.unbind(1)[:2], 1).norm(dim=-1),
        )


def image(n=2):
    return torch.randn(n, 3, 32, 32)


def mask():
    made = torch.ones(2, LENGTH, dtype=torch.int64)
    made[1, 11:] = 0
    return made


BATCH = torch.export.Dim("batch", min=2, max=64)

# Name: the model, its inputs, whether it is trained, whether it is written in core operators, its open dimensions.
MODELS = {
    "mlp_core": (Mlp, lambda: (torch.randn(4, 16), torch.randn(4, 8)), True, True, ({0: BATCH}, {0: BATCH})),
    "mlp": (Mlp, lambda: (torch.randn(4, 16), torch.randn(4, 8)), True, False, None),
    "gpt_core": (Gpt, lambda: (tokens(2, LENGTH), tokens(2, LENGTH)), True, True, None),
    "bert_core": (Bert, lambda: (tokens(2, LENGTH), mask()), False, True, None),
    "bert": (Bert, lambda: (tokens(2, LENGTH), mask()), False, False, None),
    "llama_core": (Llama, lambda: (tokens(2, LENGTH),), False, True, None),
    "llama": (Llama, lambda: (tokens(2, LENGTH),), False, False, ({0: BATCH, 1: torch.export.Dim("length", max=99)},)),
    "vit_core": (Vit, lambda: (image(),), False, True, None),
    "resnet": (Resnet, lambda: (image(), torch.tensor([1, 7])), False, False, None),
    "resnet_core": (Resnet, lambda: (image(4), torch.tensor([1, 7, 0, 9])), True, True, None),
    "moe_core": (Moe, lambda: (torch.randn(2, LENGTH, WIDTH),), False, True, None),
    "cache_core": (Cache, lambda: (torch.randn(2, 8), torch.randn(6, 8), torch.tensor([1, 4])), False, True, None),
    "operators_core": (Operators, lambda: (torch.randn(4, 6, 8), torch.tensor([2, 0, 3, 2])), False, True, None),
}


def packed(data):
    """The archive without what no reader of programs needs."""
    made, here = io.BytesIO(), str(pathlib.Path(__file__).resolve().parent) + "/"
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for name in sorted(old.namelist()):
            content = old.read(name)
            if "sample_inputs" in name:
                continue
            if name.endswith("/model.json"):
                text = content.decode().replace(here, "")
                program = json.loads(re.sub(r'\\"[^"]*/site-packages/torch/', r'\\"/torch/', text))
                for node in program["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {key: node["metadata"][key] for key in ("stack_trace", "nn_module_stack") if key in node["metadata"]}
                program["graph_module"]["module_call_graph"] = []
                content = json.dumps(program, separators=(",", ":")).encode()
            new.writestr(zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def results(program, model, inputs):
    """What the module returns, behind the buffers and inputs that it changes."""
    model, inputs = copy.deepcopy(model), copy.deepcopy(inputs)
    returned = model(*inputs)
    returned = list(returned) if isinstance(returned, tuple) else [returned]
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    changed = {**dict(model.named_buffers()), **dict(zip(names, inputs, strict=True))}
    targets = [spec.target for spec in program.graph_signature.output_specs if "MUTATION" in spec.kind.name]
    return [changed[target] for target in targets] + returned


def export(directory, name):
    make, inputs, trains, is_core, dims = MODELS[name]
    torch.manual_seed(1)
    model, inputs = make().train(trains), inputs()
    program = torch.export.export(copy.deepcopy(model), copy.deepcopy(inputs), dynamic_shapes=dims)
    program = program.run_decompositions() if is_core else program
    data = io.BytesIO()
    torch.export.save(program, data)
    (directory / f"{name}.pt2").write_bytes(packed(data.getvalue()))
    arrays = results(program, model, inputs)
    np.savez_compressed(directory / f"{name}.in.npz", *(array.numpy() for array in inputs))
    np.savez_compressed(directory / f"{name}.out.npz", *(array.detach().numpy() for array in arrays))
    return program


def main():
    warnings.filterwarnings("ignore")
    directory, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:] or MODELS
    directory.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        export(directory, name)
        print(f"{name}: {(directory / f'{name}.pt2').stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
