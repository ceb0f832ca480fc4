#!/usr/bin/env python3
"""headred's Transformer beside PyTorch's, in one run on this machine.

    python3 benchmarks/compare_transformer.py --build build/check [--threads 2] [--json FILE]

Both run the same shapes in float32: training steps of encoder-decoders (forward, cross-entropy, backward, clipping, Adam),
passes of BERT-base without recording, and its attention block with half and three quarters of the heads removed. PyTorch
is given what it is best at: fused attention kernels, torch.inference_mode, denormals flushed, the fused Adam where there is
one. Ours and theirs are timed in turns, several times over; the table has medians in milliseconds and theirs by ours.
Program: <build>/benchmarks/transformer_benchmark.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class attention(nn.Module):
    def __init__(self, width, heads, size):
        super().__init__()
        self.heads, self.size = heads, size
        self.q, self.k, self.v = (nn.Linear(width, heads * size) for _ in range(3))
        self.o = nn.Linear(heads * size, width)

    def forward(self, x, memory, causal=False):
        b, t, _ = x.shape
        s = memory.shape[1]
        q = self.q(x).view(b, t, self.heads, self.size).transpose(1, 2)
        k = self.k(memory).view(b, s, self.heads, self.size).transpose(1, 2)
        v = self.v(memory).view(b, s, self.heads, self.size).transpose(1, 2)
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.o(a.transpose(1, 2).reshape(b, t, self.heads * self.size))


class layer(nn.Module):
    def __init__(self, width, heads, hidden, cross, dropout, pre_norm, activation):
        super().__init__()
        self.self_attention = attention(width, heads, width // heads)
        self.cross = attention(width, heads, width // heads) if cross else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.expand, self.contract = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout, self.pre_norm, self.activation = dropout, pre_norm, activation

    def forward(self, x, memory=None):
        drop = lambda y: functional.dropout(y, self.dropout, self.training) if self.dropout > 0 else y
        blocks = [lambda y: self.self_attention(y, y, memory is not None)]
        if memory is not None:
            blocks.append(lambda y: self.cross(y, memory))
        blocks.append(lambda y: self.contract(self.activation(self.expand(y))))
        for block, norm in zip(blocks, self.norms):
            x = x + drop(block(norm(x))) if self.pre_norm else norm(x + drop(block(x)))
        return x


class translator(nn.Module):
    def __init__(self, layers, width, heads, hidden, vocabulary, dropout):
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        make = lambda cross: nn.ModuleList(
            layer(width, heads, hidden, cross, dropout, True, functional.relu) for _ in range(layers))
        self.encoder, self.decoder = make(False), make(True)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.register_buffer("positions", torch.randn(512, width))
        self.scale, self.dropout = width ** .5, dropout

    def embed(self, table, ids):
        return functional.dropout(table(ids) * self.scale + self.positions[:ids.shape[1]], self.dropout, self.training)

    def forward(self, source, target):
        x = self.embed(self.source, source)
        for l in self.encoder:
            x = l(x)
        x = self.norms[0](x)
        y = self.embed(self.target, target)
        for l in self.decoder:
            y = l(y, x)
        return functional.linear(self.norms[1](y), self.target.weight, self.bias)


def training(layers, width, hidden, dropout, number, length):
    torch.manual_seed(1)
    model = translator(layers, width, 8, hidden, 4000, dropout).train()
    fused = {"fused": True} if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4) else {"foreach": True}
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, **fused)
    source, target = (torch.randint(3, 4000, (number, length)) for _ in range(2))

    def step():
        optimizer.zero_grad(set_to_none=True)
        logits = model(source, target)
        functional.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=.1).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.)
        optimizer.step()
    return step


def bert(number):
    torch.manual_seed(1)
    words, places = nn.Embedding(30522, 768), nn.Embedding(512, 768)
    norm = nn.LayerNorm(768)
    layers = [layer(768, 12, 3072, False, 0, False, functional.gelu).eval() for _ in range(12)]
    ids = torch.randint(3, 30522, (number, 128))

    def run():
        with torch.inference_mode():
            x = norm(words(ids) + places.weight[:128])
            for l in layers:
                x = l(x)
    return run


def block(heads):
    torch.manual_seed(1)
    module = attention(768, heads, 64).eval()
    x = torch.full((8, 128, 768), .5)

    def run():
        with torch.inference_mode():
            module(x, x)
    return run


def cases():
    return {
        "training_step/f32/2+2x128/32x32": lambda: training(2, 128, 512, 0., 32, 32),
        "training_step/f32/2+2x128/32x32/dropout": lambda: training(2, 128, 512, .1, 32, 32),
        "training_step/f32/6+6x512/4x32": lambda: training(6, 512, 2048, 0., 4, 32),
        "forward/bert_base/f32/1x128": lambda: bert(1),
        "forward/bert_base/f32/8x128": lambda: bert(8),
        "attention/bert_base/f32/8x128/12_of_12_heads": lambda: block(12),
        "attention/bert_base/f32/8x128/6_of_12_heads": lambda: block(6),
        "attention/bert_base/f32/8x128/3_of_12_heads": lambda: block(3),
    }


def median_time(run, seconds):
    run()
    times = []
    while len(times) < 3 or sum(times) < seconds:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times)


def ours(program, name, threads):
    out = subprocess.run([program, f"--threads={threads}", f"--benchmark_filter=^{name.replace('+', '.')}/min_time",
                          "--benchmark_format=json"], check=True, capture_output=True, text=True).stdout
    found = json.loads(out)["benchmarks"][0]
    return found["real_time"], found["share_of_peak"]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, required=True)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json", type=pathlib.Path)
    o = options.parse_args()
    torch.set_num_threads(o.threads)
    torch.set_flush_denormal(True)
    program = str(o.build / "benchmarks" / "transformer_benchmark")
    rows = []
    print(f"{'':46} {'headred':>9} {'PyTorch':>9} {'ratio':>6} {'of peak':>8}")
    for name, make in cases().items():
        run = make()
        mine, theirs, share = [], [], []
        for _ in range(o.rounds):
            t, s = ours(program, name, o.threads)
            mine.append(t)
            share.append(s)
            theirs.append(median_time(run, .5))
        row = {"name": name, "headred_ms": statistics.median(mine), "pytorch_ms": statistics.median(theirs),
               "share_of_peak": statistics.median(share)}
        row["ratio"] = row["pytorch_ms"] / row["headred_ms"]
        rows.append(row)
        print(f"{name:46} {row['headred_ms']:9.2f} {row['pytorch_ms']:9.2f} {row['ratio']:6.2f} "
              f"{row['share_of_peak']:8.2f}", flush=True)
    if o.json:
        o.json.write_text(json.dumps({"torch": torch.__version__, "threads": o.threads, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
