#!/usr/bin/env python3
r"""A distance kernel of your own beside headred's, in one run on this machine.

    python3 benchmarks/compare_kernel.py --build build/bench --distance cosine --library ./mine.so
    python3 benchmarks/compare_kernel.py --build build/bench --distance cosine \
        --command './mine {maps} {heads} {tokens} {threads}'

--library: a shared object with this C function (its name by --function, `double const*` with --type f64):

    void distances(float const* maps, int64_t heads, int64_t tokens, int64_t threads, double* out);

maps is (heads, tokens, tokens), row after row, rows sum to 1; out is (heads, heads), the mean over tokens of the distance
of each pair of heads. It is called again and again; the first call is not timed. What it puts above the diagonal is compared
with the formula in double for some pairs, and an error above --tolerance ends the program with 1.

--command: is run once a round and prints the milliseconds of one call, alone on its last line. {maps} becomes the name of a
file with the maps as bare numbers; its answer is not looked at.

Both take turns, --rounds times. Printed are medians in milliseconds a sentence, their ratio, and headred's share of the
limits of this machine; --json writes the same. Needs nothing but Python and <build>/benchmarks/distance_benchmark.
"""

import argparse
import array
import ctypes
import json
import math
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time


def softmax_maps(heads, tokens, code):
    draw = random.Random(1)
    maps = array.array(code)
    for _ in range(heads * tokens):
        row = [math.exp(6 * draw.random()) for _ in range(tokens)]
        total = sum(row)
        maps.extend(x / total for x in row)
    return maps


def cosine(p, q):
    return 1 - math.fsum(x * y for x, y in zip(p, q)) / math.sqrt(math.fsum(x * x for x in p) * math.fsum(y * y for y in q))


def pearson(p, q):
    a, b = math.fsum(p) / len(p), math.fsum(q) / len(q)
    return cosine([x - a for x in p], [y - b for y in q]) / 2


def bhattacharyya(p, q):
    return math.sqrt(max(0, 1 - math.fsum(math.sqrt(x * y) for x, y in zip(p, q))))


def jensen_shannon(p, q):
    def part(x, m):
        return x * math.log2(x / m) / 2 if x > 0 else 0

    return math.sqrt(max(0, math.fsum(part(x, (x + y) / 2) + part(y, (x + y) / 2) for x, y in zip(p, q))))


FORMULAS = {f.__name__: f for f in (cosine, pearson, bhattacharyya, jensen_shannon)}


def mean_distance(formula, maps, tokens, a, b):
    def row(head, token):
        begin = (head * tokens + token) * tokens
        values = maps[begin:begin + tokens]
        total = math.fsum(values)
        return [x / total for x in values]

    return math.fsum(formula(row(a, t), row(b, t)) for t in range(tokens)) / tokens


class Library:
    def __init__(self, options, maps):
        real = ctypes.c_float if options.type == "f32" else ctypes.c_double
        path = pathlib.Path(options.library).resolve()
        try:
            self.call = getattr(ctypes.CDLL(str(path)), options.function)
        except (OSError, AttributeError) as problem:
            sys.exit(f"compare_kernel: {path}: {problem}; expected a shared object with a function {options.function}")
        self.call.restype = None
        self.call.argtypes = [ctypes.POINTER(real), ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
                              ctypes.POINTER(ctypes.c_double)]
        self.maps = (real * len(maps)).from_buffer(maps)
        self.out = (ctypes.c_double * (options.heads ** 2))()
        self.sizes = (options.heads, options.tokens, options.threads)
        self.run()

    def run(self):
        self.call(self.maps, *self.sizes, self.out)

    def milliseconds(self):
        times = []
        while len(times) < 3 or sum(times) < .2:
            begin = time.perf_counter()
            self.run()
            times.append(time.perf_counter() - begin)
        return 1000 * statistics.median(times)

    def worst_error(self, options, maps):
        draw = random.Random(2)
        pairs = {(0, options.heads - 1)} | {tuple(sorted(draw.sample(range(options.heads), 2))) for _ in range(8)}
        formula = FORMULAS[options.distance]
        return max(abs(self.out[a * options.heads + b] - mean_distance(formula, maps, options.tokens, a, b))
                   for a, b in pairs)


class Command:
    def __init__(self, options, file):
        self.words = shlex.split(options.command.format(maps=shlex.quote(file), heads=options.heads, tokens=options.tokens,
                                                        threads=options.threads))

    def milliseconds(self):
        done = subprocess.run(self.words, capture_output=True, text=True)
        lines = done.stdout.split()
        try:
            if done.returncode == 0:
                return float(lines[-1])
        except (IndexError, ValueError):
            pass
        sys.exit(f"compare_kernel: {self.words[0]} ended with {done.returncode} and printed no number of milliseconds last:\n"
                 f"{done.stdout}{done.stderr}")


def ours(program, options):
    done = subprocess.run([str(program), f"--heads={options.heads}", f"--tokens={options.tokens}",
                           f"--threads={options.threads}", f"--type={options.type}",
                           f"--benchmark_filter=^{options.distance}/", "--benchmark_format=json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_kernel: {program} failed:\n{done.stderr}")
    found = json.loads(done.stdout)["benchmarks"]
    if len(found) != 1:
        sys.exit(f"compare_kernel: {program} has {len(found)} benchmarks of {options.distance}, expected 1")
    return found[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/bench", type=pathlib.Path, help="folder in which headred was built")
    parser.add_argument("--distance", default="cosine", choices=list(FORMULAS))
    parser.add_argument("--heads", default=144, type=int)
    parser.add_argument("--tokens", default=128, type=int)
    parser.add_argument("--threads", default=1, type=int)
    parser.add_argument("--type", default="f32", choices=["f32", "f64"])
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--tolerance", default=1e-3, type=float)
    parser.add_argument("--json", type=pathlib.Path, help="file to write")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--library", help="shared object")
    way.add_argument("--command", help="program with its arguments")
    parser.add_argument("--function", default="distances", help="name of the function in --library")
    options = parser.parse_args()
    if options.heads < 2 or options.tokens < 1 or options.threads < 1 or options.rounds < 1:
        parser.error("expected at least 2 heads, 1 token, 1 thread and 1 round")
    program = options.build / "benchmarks" / "distance_benchmark"
    if not program.exists():
        sys.exit(f"compare_kernel: {program} is missing; docs/benchmarks.md says how to build it")

    maps = softmax_maps(options.heads, options.tokens, "f" if options.type == "f32" else "d")
    error = None
    with tempfile.TemporaryDirectory() as folder:
        if options.library:
            theirs = Library(options, maps)
            error = theirs.worst_error(options, maps)
        else:
            file = os.path.join(folder, "maps")
            with open(file, "wb") as out:
                maps.tofile(out)
            theirs = Command(options, file)
        times, limits = {"headred": [], "yours": []}, {}
        for _ in range(options.rounds):
            found = ours(program, options)
            times["headred"].append(found["real_time"])
            for name, value in found.items():
                if name.startswith("of "):
                    limits.setdefault(name, []).append(value)
            times["yours"].append(theirs.milliseconds())

    median = {who: statistics.median(t) for who, t in times.items()}
    result = {"distance": options.distance, "type": options.type, "heads": options.heads, "tokens": options.tokens,
              "threads": options.threads, "milliseconds": median,
              "spread": {who: max(t) / min(t) for who, t in times.items()},
              "ratio": median["yours"] / median["headred"],
              "share": {name: statistics.median(v) for name, v in limits.items()}, "error": error}
    print(f"{options.distance}, {options.type}, {options.heads} heads, {options.tokens} tokens, {options.threads} threads")
    for who in median:
        print(f"  {who:8} {median[who]:10.3f} ms   slowest of {options.rounds} rounds / fastest: {result['spread'][who]:.2f}")
    print(f"  yours / headred: {result['ratio']:.2f}")
    print("  headred's share " + ", ".join(f"{name} {value:.2f}" for name, value in result["share"].items()))
    if error is not None:
        print(f"  largest error of yours against the formula in double: {error:.1e}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    if error is not None and not error <= options.tolerance:
        sys.exit(f"compare_kernel: yours computes another distance: off by {error:.1e}, allowed {options.tolerance:.1e}")


if __name__ == "__main__":
    main()
