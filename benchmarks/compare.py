#!/usr/bin/env python3
"""headred's distances beside NumPy's and PyTorch's, in one run on this machine.

    python3 benchmarks/compare.py --build build/check [--heads 144] [--tokens 128] [--threads 2] [--json FILE]

Each peer computes what headred computes, in float32, the best way that it offers: vectorised over all pairs, as products
where there is a product. Packages that are missing are left out. Times are medians in milliseconds a sentence; the last
column is the fastest peer's time divided by headred's. Programs: <build>/benchmarks/distance_benchmark and
matrix_distance_benchmark. Procrustes and canonical correlation are timed on a sample of pairs by the peers and scaled up.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

DISTANCES = ["cosine", "pearson", "bhattacharyya", "jensen_shannon", "distance_correlation", "procrustes",
             "canonical_correlation"]


def median_time(run, least=5, seconds=1.0):
    run()
    times = []
    while len(times) < least or sum(times) < seconds:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
        if len(times) >= 200:
            break
    return statistics.median(times)


def softmax_maps(heads, tokens):
    import numpy
    scores = numpy.random.default_rng(1).uniform(0, 6, (heads, tokens, tokens))
    maps = numpy.exp(scores)
    return (maps / maps.sum(-1, keepdims=True)).astype(numpy.float32)


def numpy_ways(a):
    import numpy as np
    heads, tokens, _ = a.shape
    by_token = np.ascontiguousarray(a.transpose(1, 0, 2))
    pairs = heads * (heads - 1) // 2

    def gram(x):
        return np.matmul(x, x.transpose(0, 2, 1))

    def cosine():
        x = by_token / np.sqrt(np.einsum("thk,thk->th", by_token, by_token))[..., None]
        return 1 - gram(x).mean(0)

    def pearson():
        x = by_token - by_token.mean(-1, keepdims=True)
        x /= np.sqrt(np.einsum("thk,thk->th", x, x))[..., None]
        return (1 - gram(x).mean(0)) / 2

    def bhattacharyya():
        return np.sqrt(np.maximum(0, 1 - gram(np.sqrt(by_token)))).mean(0)

    def jensen_shannon():
        table = (by_token * np.log2(by_token)).sum(-1)
        out = np.zeros((heads, heads), np.float32)
        for i in range(heads - 1):
            m = (by_token[:, i:i + 1] + by_token[:, i + 1:]) / 2
            divergence = (table[:, i:i + 1] + table[:, i + 1:]) / 2 - np.einsum("thk,thk->th", m, np.log2(m))
            out[i, i + 1:] = np.sqrt(np.maximum(0, divergence)).mean(0)
        return out

    def distance_correlation():
        squares = np.einsum("htk,htk->ht", a, a)
        d = squares[:, :, None] + squares[:, None, :] - 2 * np.matmul(a, a.transpose(0, 2, 1))
        d = np.sqrt(np.maximum(0, d))
        d += d.mean((1, 2))[:, None, None] - d.mean(1)[:, None, :] - d.mean(2)[:, :, None]
        v = d.reshape(heads, -1)
        v /= np.sqrt((v * v).sum(1))[:, None]
        return 1 - np.sqrt(np.maximum(0, v @ v.T))

    def nuclear(x):
        sample = min(heads - 1, 32)

        def run():
            c = np.matmul(x[0].T, x[1:sample + 1])
            return np.linalg.svd(c, compute_uv=False).sum(-1)

        run.scale = pairs / sample
        return run

    centred = a - a.mean(1, keepdims=True)
    centred /= np.sqrt((centred ** 2).sum((1, 2)))[:, None, None]
    c = np.matmul(centred.transpose(0, 2, 1), centred) / tokens
    c += .01 * np.trace(c, axis1=1, axis2=2)[:, None, None] / tokens * np.eye(tokens, dtype=np.float32)
    values, vectors = np.linalg.eigh(c)
    white = np.matmul(centred, np.matmul(vectors / np.sqrt(values)[:, None, :], vectors.transpose(0, 2, 1)))
    white = (white / np.sqrt((white ** 2).sum((1, 2)))[:, None, None]).astype(np.float32)
    return {"cosine": cosine, "pearson": pearson, "bhattacharyya": bhattacharyya, "jensen_shannon": jensen_shannon,
            "distance_correlation": distance_correlation, "procrustes": nuclear(centred),
            "canonical_correlation": nuclear(white)}


def torch_ways(maps):
    import torch
    a = torch.from_numpy(maps)
    heads, tokens, _ = a.shape
    by_token = a.transpose(0, 1).contiguous()
    pairs = heads * (heads - 1) // 2

    def cosine():
        x = torch.nn.functional.normalize(by_token, dim=-1)
        return 1 - torch.bmm(x, x.transpose(1, 2)).mean(0)

    def pearson():
        x = torch.nn.functional.normalize(by_token - by_token.mean(-1, keepdim=True), dim=-1)
        return (1 - torch.bmm(x, x.transpose(1, 2)).mean(0)) / 2

    def bhattacharyya():
        x = by_token.sqrt()
        return (1 - torch.bmm(x, x.transpose(1, 2))).clamp_min(0).sqrt().mean(0)

    def jensen_shannon():
        table = torch.xlogy(by_token, by_token).sum(-1)
        out = torch.zeros(heads, heads)
        for i in range(heads - 1):
            m = (by_token[:, i:i + 1] + by_token[:, i + 1:]) / 2
            divergence = (table[:, i:i + 1] + table[:, i + 1:]) / 2 - (m * m.log()).sum(-1)
            out[i, i + 1:] = (divergence / 0.6931471805599453).clamp_min(0).sqrt().mean(0)
        return out

    def distance_correlation():
        d = torch.cdist(a, a)
        d = d + d.mean((1, 2), keepdim=True) - d.mean(1, keepdim=True) - d.mean(2, keepdim=True)
        v = torch.nn.functional.normalize(d.reshape(heads, -1), dim=1)
        return 1 - (v @ v.T).clamp_min(0).sqrt()

    centred = a - a.mean(1, keepdim=True)
    centred = centred / centred.flatten(1).norm(dim=1)[:, None, None]

    def nuclear():
        sample = min(heads - 1, 32)
        return torch.linalg.svdvals(torch.matmul(centred[0].T, centred[1:sample + 1])).sum(-1)

    nuclear.scale = pairs / min(heads - 1, 32)
    return {"cosine": cosine, "pearson": pearson, "bhattacharyya": bhattacharyya, "jensen_shannon": jensen_shannon,
            "distance_correlation": distance_correlation, "procrustes": nuclear, "canonical_correlation": nuclear}


def ours(build, heads, tokens, threads):
    """Medians in seconds, and shares of the limits, from headred's own benchmarks."""
    result = {}
    for program in ("distance_benchmark", "matrix_distance_benchmark"):
        path = build / "benchmarks" / program
        if not path.exists():
            sys.exit(f"compare.py: {path} is missing: build headred's benchmarks first")
        command = [str(path), f"--heads={heads}", f"--tokens={tokens}", f"--threads={threads}",
                   "--benchmark_repetitions=5", "--benchmark_format=json"]
        for row in json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["benchmarks"]:
            if row.get("aggregate_name") == "median":
                name = row["name"].split("/")[0]
                shares = {key: value for key, value in row.items() if key.startswith("of ")}
                result[name] = {"seconds": row["real_time"] / 1e3, **shares}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with headred's benchmarks")
    parser.add_argument("--heads", type=int, default=144)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(options.threads)  # before the packages are loaded

    times = {"headred": {name: row["seconds"] for name, row in
                         ours(options.build, options.heads, options.tokens, options.threads).items()}}
    peers = {}
    try:
        maps = softmax_maps(options.heads, options.tokens)
        peers["NumPy"] = numpy_ways(maps)
    except ImportError:
        sys.exit("compare.py: NumPy is needed for the input")
    try:
        import torch
        torch.set_num_threads(options.threads)
        peers["PyTorch"] = torch_ways(maps)
    except ImportError:
        pass
    for peer, ways in peers.items():
        times[peer] = {name: median_time(ways[name]) * getattr(ways[name], "scale", 1) for name in DISTANCES}

    print(f"{options.heads} heads, {options.tokens} tokens, {options.threads} threads, float32: ms a sentence")
    print(f"{'':24}" + "".join(f"{name:>12}" for name in times) + f"{'best / ours':>14}")
    for name in DISTANCES:
        if name not in times["headred"]:
            continue
        row = [times[who][name] for who in times]
        print(f"{name:24}" + "".join(f"{1e3 * t:12.3f}" for t in row) + f"{min(row[1:]) / row[0]:14.2f}")
    if options.json:
        options.json.write_text(json.dumps(times, indent=1))


if __name__ == "__main__":
    main()
