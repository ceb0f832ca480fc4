#!/usr/bin/env python3
"""Gates and masks beside PyTorch's expressions, in one run, two threads: nanoseconds an element.

  compare_gates.py --program build/check/benchmarks/gate_benchmark [--json FILE]
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import time

import torch


def median_time(run, rounds=7):
    run()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def hard_concrete(back):
    beta, gamma, zeta = .33, -.1, 1.1
    log_a = (torch.rand(10_000_000) * 6 - 3).requires_grad_(back)
    weight = torch.rand(10_000_000)

    def run():
        log_a.grad = None
        u = torch.empty_like(log_a).uniform_(1e-6, 1 - 1e-6)
        s = torch.sigmoid((torch.log(u) - torch.log(1 - u) + log_a) / beta)
        g = (s * (zeta - gamma) + gamma).clamp(0, 1)
        penalty = torch.sigmoid(log_a - beta * math.log(-gamma / zeta)).sum()
        if back:
            ((g * weight).sum() + .01 * penalty).backward()

    return median_time(run) / 10_000_000


def gumbel_sigmoid(back):
    shape = (12, 128, 128)
    a = torch.randn(shape).requires_grad_(back)
    weight = torch.rand(shape)

    def run():
        a.grad = None
        g = -torch.log(-torch.log(torch.rand(2, *shape)))
        m = torch.sigmoid((a + g[0] - g[1]) / 1.0)
        if back:
            (m * weight).sum().backward()

    return median_time(run, 31) / math.prod(shape)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", required=True)
    options.add_argument("--json")
    asked = options.parse_args()
    torch.set_num_threads(2)
    command = [asked.program, "--benchmark_format=json", "--benchmark_repetitions=5", "--benchmark_filter=/2/real_time"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["benchmarks"]
    ours = {r["run_name"].split("/")[0] + "/" + r["run_name"].split("/")[1]: 1e9 / r["items_per_second"] for r in rows
            if r.get("aggregate_name") == "median"}
    peers = {"hard_concrete/sample_and_penalty": hard_concrete(False), "hard_concrete/forward_and_back": hard_concrete(True),
             "gumbel_sigmoid/sample": gumbel_sigmoid(False), "gumbel_sigmoid/forward_and_back": gumbel_sigmoid(True)}
    found = {}
    for name, seconds in peers.items():
        found[name] = {"headred": ours[name], "PyTorch": seconds * 1e9, "ratio": seconds * 1e9 / ours[name]}
        print(f"{name:36s} headred {ours[name]:7.3f} ns   PyTorch {seconds * 1e9:7.2f} ns   ratio {seconds * 1e9 / ours[name]:6.1f}")
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
