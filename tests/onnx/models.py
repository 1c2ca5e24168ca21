"""Exports tiny, randomly initialised PyTorch models to ONNX, each with inputs and onnxruntime's outputs.

`models.py DIR [NAME...]` writes DIR/NAME.onnx.gz, DIR/NAME.in.npz and DIR/NAME.out.npz: arrays `arr_0`, `arr_1`, ... in the
order of the graph's inputs and outputs. `NAME` has one of two endings: `_script` for the TorchScript exporter,
`_dynamo` for the one of `torch.export`. What the exporters write beside the program (where in the Python source a
node comes from, shapes of intermediate values) is left out.
"""

import gzip
import pathlib
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from torch import nn

SIZES = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)


class Outputs(nn.Module):
    """A transformers model as a function from tensors to its first output."""

    def __init__(self, model, field):
        super().__init__()
        self.model, self.field = model, field

    def forward(self, *args):
        return getattr(self.model(*args), self.field)


def tokens(*shape):
    return torch.randint(0, 90, shape)


def ones(*shape):
    return torch.ones(shape, dtype=torch.int64)


def gpt2():
    sizes = dict(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=4)
    config = transformers.GPT2Config(**sizes, use_cache=False, attn_implementation="eager")

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.GPT2LMHeadModel(config)

        def forward(self, ids, mask):
            return self.model(input_ids=ids, attention_mask=mask).logits

    return Gpt2(), (tokens(2, 16), ones(2, 16))


def bert():
    config = transformers.BertConfig(**SIZES, max_position_embeddings=32, attn_implementation="eager")
    mask = ones(2, 16)
    mask[1, 11:] = 0
    return Outputs(transformers.BertForMaskedLM(config), "logits"), (tokens(2, 16), mask)


def llama():
    config = transformers.LlamaConfig(
        **SIZES, num_key_value_heads=2, max_position_embeddings=32, use_cache=False, attn_implementation="eager"
    )
    return Outputs(transformers.LlamaForCausalLM(config), "logits"), (tokens(2, 16), ones(2, 16))


def vit():
    sizes = {key: value for key, value in SIZES.items() if key != "vocab_size"}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8, num_labels=10)
    return Outputs(transformers.ViTForImageClassification(config), "logits"), (torch.randn(2, 3, 32, 32),)


def resnet():
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2], layer_type="bottleneck", num_labels=10
    )
    return Outputs(transformers.ResNetForImageClassification(config), "logits"), (torch.randn(2, 3, 32, 32),)


def t5():
    config = transformers.T5Config(
        vocab_size=96, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False, decoder_start_token_id=0
    )

    class T5(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.T5ForConditionalGeneration(config)

        def forward(self, ids, decoder_ids):
            return self.model(input_ids=ids, decoder_input_ids=decoder_ids, use_cache=False).logits

    return T5(), (tokens(2, 12), tokens(2, 8))


def moe():
    """A layer of experts with the two best per token, weighted, as Mixtral has it; each expert sees every token."""

    class Moe(nn.Module):
        def __init__(self, width=32, n_experts=4):
            super().__init__()
            self.gate = nn.Linear(width, n_experts, bias=False)
            self.up = nn.Parameter(torch.randn(n_experts, width, 64) / 8)
            self.down = nn.Parameter(torch.randn(n_experts, 64, width) / 8)

        def forward(self, x):
            weights, chosen = torch.topk(self.gate(x).softmax(-1), 2, dim=-1)
            weights = weights / weights.sum(-1, keepdim=True)
            share = (nn.functional.one_hot(chosen, 4).float() * weights[..., None]).sum(-2)
            hidden = nn.functional.silu(torch.einsum("bsd,edh->besh", x, self.up))
            return torch.einsum("besh,ehd,bse->bsd", hidden, self.down, share)

    return Moe(), (torch.randn(2, 16, 32),)


def unet():
    """The layers of image models that the others lack: group and instance norm, resizing by views, pooling, padding."""

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, padding=1, groups=1)
            self.group = nn.GroupNorm(2, 8)
            self.depthwise = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8)
            self.instance = nn.InstanceNorm2d(8, affine=True)
            self.pool = nn.AvgPool2d(3, stride=2, padding=1)
            self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
            self.mix = nn.Conv2d(12, 4, 1)

        def forward(self, x):
            skip = nn.functional.silu(self.group(self.first(x)))
            x = nn.functional.hardswish(self.instance(self.depthwise(skip)))
            x = nn.functional.pad(x, (1, 1, 0, 0)).clamp(-1.5, 2.0)[..., 1:-1]
            x = torch.cat([self.up(x), skip], 1)
            return self.pool(self.mix(x)).flatten(2).cumsum(-1)

    return Unet(), (torch.randn(2, 3, 16, 16),)


MODELS = [gpt2, bert, llama, vit, resnet, t5, moe, unet]


def stripped(path):
    """The bytes of a model without what only people read."""
    model = onnx.load(path)
    del model.graph.value_info[:], model.metadata_props[:], model.graph.metadata_props[:]
    for part in [model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output]:
        part.ClearField("doc_string")
    for part in [*model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output]:
        del part.metadata_props[:]
    return model.SerializeToString(deterministic=True)


def export(directory, make, dynamo):
    torch.manual_seed(1)
    model, inputs = make()
    path = directory / f"{make.__name__}_{'dynamo' if dynamo else 'script'}.onnx"
    names = [f"in{n}" for n in range(len(inputs))]
    options = dict(dynamo=True, external_data=False) if dynamo else dict(dynamo=False, opset_version=17)
    with torch.no_grad():
        torch.onnx.export(model.eval(), inputs, path, input_names=names, verbose=False, **options)
    data = stripped(path)
    path.unlink()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    arrays = dict(zip(names, (array.numpy() for array in inputs), strict=True))
    given = {one.name: arrays[one.name] for one in session.get_inputs()}
    path.with_suffix(".onnx.gz").write_bytes(gzip.compress(data, mtime=0))
    np.savez_compressed(path.with_suffix(".in.npz"), *given.values())
    np.savez_compressed(path.with_suffix(".out.npz"), *session.run(None, given))
    return path


def main():
    warnings.filterwarnings("ignore")
    directory, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:]
    directory.mkdir(parents=True, exist_ok=True)
    for make in MODELS:
        for dynamo in (False, True):
            name = f"{make.__name__}_{'dynamo' if dynamo else 'script'}"
            if wanted and name not in wanted:
                continue
            try:
                print(f"{export(directory, make, dynamo)}", flush=True)
            except Exception as error:  # the exporter's own limits: the others are still of use
                print(f"{name}: not exported: {str(error).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    main()
