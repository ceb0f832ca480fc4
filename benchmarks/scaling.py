#!/usr/bin/env python3
"""How the cost of headred's distances grows with heads, tokens, sentences and threads, as fitted exponents.

    python3 benchmarks/scaling.py --build build/check [--threads 2] [--markdown FILE]

Runs <build>/benchmarks/distance_benchmark at one shape after the other and fits log time to log size by least squares.
Shares of a limit are those of the largest size: multiply-adds, or logarithms for Jensen-Shannon.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

SWEEPS = {
    "heads": [{"heads": h, "tokens": 64} for h in (36, 72, 144, 288, 576, 1024)],
    "tokens": [{"heads": 144, "tokens": t} for t in (16, 32, 64, 128, 256, 512)],
    "sentences": [{"heads": 144, "tokens": 64, "sentences": s} for s in (1, 4, 16, 64)],
}


def medians(program, shape, threads):
    """{distance: (seconds, share of its limit)} of one shape."""
    command = [str(program), f"--threads={threads}", "--benchmark_repetitions=3", "--benchmark_format=json"]
    command += [f"--{name}={value}" for name, value in shape.items()]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["benchmarks"]
    result = {}
    for row in rows:
        if row.get("aggregate_name") == "median":
            share = row.get("of log2", row.get("of FMA", math.nan))
            result[row["name"].split("/")[0]] = (row["real_time"] / 1e3, share)
    return result


def exponent(sizes, times):
    x, y = [math.log(s) for s in sizes], [math.log(t) for t in times]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with headred's benchmarks")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--markdown", type=pathlib.Path, help="write the tables there too")
    options = parser.parse_args()
    program = options.build / "benchmarks" / "distance_benchmark"
    if not program.exists():
        sys.exit(f"scaling.py: {program} is missing: build headred's benchmarks first")

    lines = []
    for name, shapes in SWEEPS.items():
        sizes = [shape[name] for shape in shapes]
        found = [medians(program, shape, options.threads) for shape in shapes]
        lines.append(f"| {name} | " + " | ".join(f"{s}: ms" for s in sizes) + " | exponent | of limit, smallest to largest |")
        lines.append("|---" * (len(sizes) + 3) + "|")
        for distance in found[0]:
            times = [one[distance][0] for one in found]
            shares = ", ".join(f"{one[distance][1]:.2f}" for one in found)
            lines.append(f"| `{distance}` | " + " | ".join(f"{1e3 * t:.3g}" for t in times)
                         + f" | {exponent(sizes, times):.2f} | {shares} |")
        lines.append("")
    one, more = (medians(program, {"heads": 144, "tokens": 128}, threads) for threads in (1, options.threads))
    lines.append(f"| 144 heads, 128 tokens | 1 thread: ms | {options.threads} threads: ms | gain |")
    lines.append("|---|---|---|---|")
    lines += [f"| `{d}` | {1e3 * one[d][0]:.3g} | {1e3 * more[d][0]:.3g} | {one[d][0] / more[d][0]:.2f} |" for d in one]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.markdown:
        options.markdown.write_text(text)


if __name__ == "__main__":
    main()
