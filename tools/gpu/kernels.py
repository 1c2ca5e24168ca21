"""Times matrix products, attention, memory-bound kernels, launches and transformer layers on one GPU by PyTorch.

Usage: python tools/gpu/kernels.py OUT [SECONDS]

OUT gets one table per family: `gemm.tsv`, `attention.tsv`, `memory.tsv`, `launch.tsv`, `layer.tsv`. Kernels are
captured in a CUDA graph of many copies and the graph is replayed, so that launches from the host do not
count (attention backward, transfers and layers in mode `eager` are issued one by one); a time is the median of
replays. Operands rotate through more memory than the cache holds. After SECONDS
no further row is begun.
"""

import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F

DEVICE = "cuda"
SOFTWARE = f"torch {torch.__version__}"
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "tf32": torch.float32}
DEADLINE = time.time() + float(sys.argv[2] if len(sys.argv) > 2 else 1e9)
L2_BYTES = 50 << 20


def graph_secs(calls, replays=7):
    """Seconds of one of `calls`, captured one after the other."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls[:3]:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return replay_secs(graph.replay, replays) / len(calls)


def replay_secs(run, replays=7):
    times = []
    for _ in range(replays + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return statistics.median(times[2:])


def copies(n_bytes, secs):
    """How many calls make a graph: about 2 ms, and at least what leaves the cache."""
    return int(max(2, min(400, max(2e-3 / max(secs, 1e-6), 1))))


class Table:
    def __init__(self, name, columns):
        self.file = open(pathlib.Path(sys.argv[1]) / f"{name}.tsv", "w")
        self.put(*columns, "secs", "software")
        self.n_failed = 0

    def put(self, *row):
        self.file.write("\t".join(map(str, row)) + "\n")
        self.file.flush()

    def time(self, row, make, measure=graph_secs):
        """`make` gives the calls to be timed."""
        if time.time() > DEADLINE:
            return
        try:
            self.put(*row, f"{measure(make()):.9f}", SOFTWARE)
        except Exception as error:  # noqa: BLE001: a row that does not run is named
            print("failed:", row, str(error).split("\n")[0][:150], flush=True)
            torch.cuda.synchronize()
            torch.cuda.empty_cache()


def rotated(make_operands, run, n_bytes, least_secs):
    sets = [make_operands() for _ in range(max(1, min(8, int(3 * L2_BYTES / max(n_bytes, 1)) + 1)))]
    n = copies(n_bytes, least_secs)
    return [lambda operands=sets[i % len(sets)]: run(*operands) for i in range(n)]


def rand(*dims, dtype):
    return torch.randn(*dims, device=DEVICE, dtype=torch.float32).mul_(0.1).to(dtype)


GEMMS = sorted({
    *((m, n, k) for m in (1, 16, 64, 256, 1024, 4096, 16384) for n in (768, 2048, 4096, 12288) for k in (768, 4096, 11008)),
    *((m, n, k) for m in (512, 2048, 8192) for n in (1024, 3072, 5120, 8192) for k in (1024, 2560, 8192)),
    *((1024, 1024, k) for k in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)),
    *((s, s, 768) for s in (128, 192, 256, 384, 512, 640, 896, 1152, 1536, 2304, 3072, 6144)),
    (8192, 50257, 768), (8192, 50304, 768), (8192, 50257, 2048), (4096, 32000, 4096), (4096, 128256, 4096),
    (768, 50257, 8192), (50257, 768, 8192), (8192, 768, 50257), (8191, 4095, 4095), (8191, 4096, 4096), (8200, 4100, 4100),
    (3, 4096, 4096), (4096, 3, 4096), (4096, 4096, 3), (12544, 64, 147), (200704, 64, 576), (50176, 128, 1152),
})
BATCHED = [(b, m, n, k) for b in (8, 96, 256, 1024) for (m, n, k) in
           ((128, 128, 64), (512, 512, 64), (1024, 1024, 64), (1024, 64, 1024), (2048, 2048, 128), (2048, 128, 2048), (197, 197, 64), (64, 1024, 4096))
           if b * m * n <= 2.2e9]


def gemm():
    table = Table("gemm", ("dtype", "batch", "m", "n", "k", "layout"))
    for dtype, layouts, shapes in (("bf16", ("NN", "NT", "TN"), GEMMS), ("tf32", ("NN",), GEMMS[::2]),
                                   ("f32", ("NN",), GEMMS[::6]), ("f16", ("NN",), GEMMS[::8])):
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        for layout in layouts:
            for m, n, k in (shapes if layout == "NN" else shapes[::2]):
                size = torch.empty((), dtype=DTYPES[dtype]).element_size()
                peak = {"bf16": 8e14, "f16": 8e14, "tf32": 4e14, "f32": 5e13}[dtype]
                n_bytes = size * (m * k + k * n + m * n)
                least = max(2.0 * m * n * k / peak, n_bytes / 3e12, 3e-6)

                def operands(m=m, n=n, k=k, dtype=dtype, layout=layout):
                    a = rand(k, m, dtype=DTYPES[dtype]).t() if layout[0] == "T" else rand(m, k, dtype=DTYPES[dtype])
                    b = rand(n, k, dtype=DTYPES[dtype]).t() if layout[1] == "T" else rand(k, n, dtype=DTYPES[dtype])
                    return a, b, torch.empty(m, n, device=DEVICE, dtype=DTYPES[dtype])

                table.time((dtype, 1, m, n, k, layout), lambda f=operands, b=n_bytes, s=least:
                           rotated(f, lambda x, y, z: torch.mm(x, y, out=z), b, s))
    for b, m, n, k in BATCHED:
        n_bytes = 2 * b * (m * k + k * n + m * n)
        table.time(("bf16", b, m, n, k, "NN"), lambda b=b, m=m, n=n, k=k, n_bytes=n_bytes: rotated(
            lambda: (rand(b, m, k, dtype=torch.bfloat16), rand(b, k, n, dtype=torch.bfloat16)),
            torch.bmm, n_bytes, max(2.0 * b * m * n * k / 8e14, n_bytes / 3e12, 3e-6)))
    one = torch.ones((), device=DEVICE)
    for m, n, k in [g for g in GEMMS if all(d % 16 == 0 for d in g)][::3]:
        n_bytes = m * k + k * n + 2 * m * n
        table.time(("f8", 1, m, n, k, "NT"), lambda m=m, n=n, k=k, n_bytes=n_bytes: rotated(
            lambda: (rand(m, k, dtype=torch.float8_e4m3fn), rand(n, k, dtype=torch.float8_e4m3fn).t()),
            lambda x, y: torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=torch.bfloat16),
            n_bytes, max(2.0 * m * n * k / 1.5e15, n_bytes / 3e12, 3e-6)))


def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    table = Table("attention", ("backend", "phase", "causal", "batch", "seq", "heads", "kv_heads", "head_dim"))
    backends = {"flash2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}
    shapes = [(b, s, h, kv, d) for (b, s) in ((64, 128), (16, 512), (8, 1024), (1, 2048), (4, 2048), (2, 4096), (1, 8192), (1, 16384))
              for (h, kv, d) in ((12, 12, 64), (16, 16, 128), (32, 8, 128), (8, 8, 256), (16, 16, 80))]
    for name, backend in backends.items():
        for b, s, h, kv, d in shapes:
            if name == "math" and (b * h * s * s > 1.1e9 or h != kv):
                continue
            for causal in (True, False):
                def make(b=b, s=s, h=h, kv=kv, d=d, causal=causal, backend=backend, backward=False):
                    q = rand(b, h, s, d, dtype=torch.bfloat16).requires_grad_(backward)
                    k = rand(b, kv, s, d, dtype=torch.bfloat16).requires_grad_(backward)
                    v = rand(b, kv, s, d, dtype=torch.bfloat16).requires_grad_(backward)

                    def forward():
                        with sdpa_kernel(backend):
                            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=h != kv)
                    if not backward:
                        return [forward] * 4
                    out = forward()
                    grad = torch.randn_like(out)
                    return [lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)] * 4

                row = (causal, b, s, h, kv, d)
                table.time((name, "forward", *row), make)
                table.time((name, "backward", *row), lambda make=make: make(backward=True), eager_secs)


def eager_secs(calls):
    """Device seconds of one call, issued by the host one after the other."""
    def run():
        for call in calls:
            call()
    return replay_secs(run, 5) / len(calls)


def memory():
    table = Table("memory", ("op", "dtype", "rows", "columns", "bytes"))
    for dtype in ("bf16", "f32"):
        t = DTYPES[dtype]
        size = torch.empty((), dtype=t).element_size()
        for rows, columns in ((1, 1024), (64, 1024), (512, 1024), (2048, 1024), (8192, 768), (8192, 4096), (65536, 1024),
                              (16384, 16384), (98304, 1024), (8192, 50257), (1572864, 64)):
            e = rows * columns * size

            def over(run, n_in=1, rows=rows, columns=columns, t=t, e=e):
                return rotated(lambda: [rand(rows, columns, dtype=t) for _ in range(n_in)], run, e * (n_in + 1), max(2e-6, e * (n_in + 1) / 3e12))
            ops = {
                "copy": (lambda: over(torch.clone), 2 * e),
                "add": (lambda: over(torch.add, 2), 3 * e),
                "gelu": (lambda: over(lambda x: F.gelu(x, approximate="tanh")), 2 * e),
                "exp": (lambda: over(torch.exp), 2 * e),
                "softmax": (lambda: over(lambda x: torch.softmax(x, -1)), 2 * e),
                "layer_norm": (lambda columns=columns: over(lambda x: F.layer_norm(x, (columns,))), 2 * e),
                "sum_rows": (lambda: over(lambda x: x.sum(-1)), e),
                "sum_columns": (lambda: over(lambda x: x.sum(0)), e),
                "sum_all": (lambda: over(lambda x: x.sum()), e),
                "transpose": (lambda: over(lambda x: x.t().contiguous()), 2 * e),
                "cast": (lambda dtype=dtype: over(lambda x: x.to(torch.float32 if dtype == "bf16" else torch.bfloat16)), 3 * e if dtype == "bf16" else e * 3 // 2),
                "fill": (lambda: over(torch.zeros_like), e),
            }
            for name, (make, n_bytes) in ops.items():
                table.time((name, dtype, rows, columns, n_bytes), make)
            torch.cuda.empty_cache()
    for vocabulary, width, n in ((50257, 768, 8192), (50257, 2048, 8192), (32000, 4096, 4096), (128256, 4096, 8192)):
        ids = torch.randint(0, vocabulary, (n,), device=DEVICE)
        weight, grad = rand(vocabulary, width, dtype=torch.float32), rand(n, width, dtype=torch.float32)
        table.time(("gather", "f32", n, width, 8 * n * width), lambda: [lambda: F.embedding(ids, weight)] * 8)
        table.time(("scatter_add", "f32", n, width, 12 * n * width), lambda: [lambda: weight.index_add_(0, ids, grad)] * 8)
    for n_bytes in (1 << 20, 16 << 20, 256 << 20, 1 << 30):
        host, device = torch.empty(n_bytes, dtype=torch.uint8, pin_memory=True), torch.empty(n_bytes, dtype=torch.uint8, device=DEVICE)
        table.time(("to_device", "u8", 1, n_bytes, n_bytes), lambda: [lambda: device.copy_(host, non_blocking=True)] * 2, eager_secs)
        table.time(("to_host", "u8", 1, n_bytes, n_bytes), lambda: [lambda: host.copy_(device, non_blocking=True)] * 2, eager_secs)


def host_secs(calls):
    """Host and device seconds of a call where the host is the slower one."""
    for call in calls[:20]:
        call()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for call in calls:
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / len(calls)


def launch():
    table = Table("launch", ("op", "by"))
    x, y = rand(64, 64, dtype=torch.bfloat16), rand(64, 64, dtype=torch.bfloat16)
    w = rand(64, 64, dtype=torch.bfloat16).requires_grad_(True)
    for name, call in {"add": lambda: torch.add(x, y), "mm": lambda: torch.mm(x, y), "linear": lambda: F.linear(x, w),
                       "layer_norm": lambda: F.layer_norm(x, (64,)), "softmax": lambda: torch.softmax(x, -1)}.items():
        table.time((name, "eager"), lambda call=call: [call] * 3000, host_secs)
        table.time((name, "cuda-graph"), lambda call=call: [call] * 400)


class Layer(torch.nn.Module):
    """A GPT layer as Megatron-LM runs it in eager mode."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = (torch.nn.LayerNorm(hidden, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
        linear = lambda i, o: torch.nn.Linear(i, o, device=DEVICE, dtype=torch.bfloat16)  # noqa: E731
        self.qkv, self.o, self.up, self.down = linear(hidden, 3 * hidden), linear(hidden, hidden), linear(hidden, 4 * hidden), linear(4 * hidden, hidden)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(self.ln_1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, h)
        x = x + self.o(a)
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


def layer():
    from torch.utils.checkpoint import checkpoint
    table = Table("layer", ("hidden", "heads", "seq", "batch", "mode", "phase"))
    for hidden, heads in ((768, 12), (1024, 16), (2048, 16), (4096, 32), (8192, 64)):
        for seq, batch in ((512, 1), (2048, 1), (2048, 4), (2048, 8), (4096, 1)):
            layers = [Layer(hidden, heads) for _ in range(4)]
            x = rand(batch, seq, hidden, dtype=torch.bfloat16).requires_grad_(True)

            def forward():
                y = x
                for one in layers:
                    y = one(y)
                return y

            def step(recompute=False):
                y = x
                for one in layers:
                    y = checkpoint(one, y, use_reentrant=False, preserve_rng_state=False) if recompute else one(y)
                y.sum().backward()

            row = (hidden, heads, seq, batch)
            per_layer = lambda measure: lambda calls: measure(calls) / len(layers)  # noqa: E731
            with torch.no_grad():
                table.time((*row, "eager", "forward"), lambda: [forward] * 3, per_layer(eager_secs))
                table.time((*row, "cuda-graph", "forward"), lambda: [forward] * 2, per_layer(graph_secs))
            table.time((*row, "eager", "forward-backward"), lambda: [step] * 3, per_layer(eager_secs))
            table.time((*row, "cuda-graph", "forward-backward"), lambda: [step] * 2, per_layer(graph_secs))
            table.time((*row, "eager", "forward-backward-recompute"), lambda: [lambda: step(True)] * 3, per_layer(eager_secs))
            table.time((*row, "eager-host", "forward-backward"), lambda: [step] * 5, per_layer(host_secs))
            del layers
            torch.cuda.empty_cache()


def main():
    pathlib.Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(torch.cuda.get_device_name(), SOFTWARE, flush=True)
    for family in (launch, layer, attention, memory, gemm):
        begun = time.time()
        family()
        print(family.__name__, f"{time.time() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
