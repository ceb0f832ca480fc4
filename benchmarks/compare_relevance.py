#!/usr/bin/env python3
"""headred's relevance beside LXT's and Zennit's, in one run on this machine.

    python3 -m pip install torch lxt zennit safetensors
    python3 benchmarks/compare_relevance.py --build build/check [--threads 2] [--json FILE]

One encoder, float32: 4 layers, width 256, 8 heads, 1024 neurons, 8 sentences of 64 tokens; from a logit of every token.
Only the way back is timed, over a recording that is there. AttnLRP is LXT's functions, epsilon Zennit's rules with constant
attention (the encoders of tests/oracle/record_relevance.py); the gradient is that of all weights by PyTorch's autograd.
By sign neither has a Transformer: that row has no peer. Ours and theirs in turns; medians in milliseconds, theirs by ours.
Program: <build>/benchmarks/relevance_benchmark.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests/oracle"))
from record_relevance import Encoder  # noqa: E402

SHAPE = "f32/4x256/8x64"
PEERS = {
    "gradient": ("PyTorch", None),
    "sweep/attn/absorbed": ("LXT", "attnlrp"),
    "sweep/epsilon/absorbed/constant": ("Zennit", "epsilon"),
    "sweep/alpha_beta": (None, None),
}


class Plain(torch.nn.Module):
    """The same encoder of PyTorch's own layers."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(1000, 256), torch.nn.Parameter(torch.randn(64, 256))
        make = lambda: torch.nn.TransformerEncoderLayer(256, 8, 1024, dropout=0, batch_first=True)
        self.layers = torch.nn.ModuleList(make() for _ in range(4))
        self.output = torch.nn.Linear(256, 1000)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.output(x)


def peer(method):
    """Returns f() -> seconds of one way back."""
    ids = torch.randint(1000, (8, 64), generator=torch.Generator().manual_seed(1))
    torch.manual_seed(1)
    model = Plain() if method is None else Encoder(4, 256, 8, 1024, 1000, 64, torch.float32)

    def run():
        if method is None:
            model.zero_grad(set_to_none=True)
            logits = model(ids)
        else:
            logits, _ = model.forward(ids, method)
        seed = torch.zeros_like(logits)
        seed[:, :, 7] = 1
        begin = time.perf_counter()
        logits.backward(seed)
        return time.perf_counter() - begin

    run()
    return run


def ours(program, name, threads):
    out = subprocess.run(
        [program, f"--threads={threads}", f"--benchmark_filter=^{name}/{SHAPE}/", "--benchmark_format=json"],
        check=True, capture_output=True, text=True).stdout
    return json.loads(out)["benchmarks"][0]["real_time"]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, required=True)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", type=pathlib.Path)
    o = options.parse_args()
    torch.set_num_threads(o.threads)
    torch.set_flush_denormal(True)
    program = str(o.build / "benchmarks" / "relevance_benchmark")
    peers = {name: peer(method) for name, (tool, method) in PEERS.items() if tool}
    rows = []
    print(f"{'':34} {'headred':>9} {'peer':>9} {'ratio':>6}")
    for name, (tool, _) in PEERS.items():
        mine, theirs = [], []
        for _ in range(o.rounds):
            mine.append(ours(program, name, o.threads))
            if tool:
                theirs.append(1e3 * statistics.median(peers[name]() for _ in range(5)))
        row = {"name": name, "headred_ms": statistics.median(mine)}
        line = f"{name:34} {row['headred_ms']:9.2f}"
        if tool:
            row |= {"peer": tool, "peer_ms": statistics.median(theirs)}
            row["ratio"] = row["peer_ms"] / row["headred_ms"]
            line += f" {row['peer_ms']:9.2f} {row['ratio']:6.2f}  {tool}"
        rows.append(row)
        print(line, flush=True)
    if o.json:
        o.json.write_text(json.dumps({"torch": torch.__version__, "threads": o.threads, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
