#!/usr/bin/env python3
"""Spectral clustering beside scikit-learn, in one run: time, normalised cut, inertia.

  compare_clusters.py --program build/release/benchmarks/cluster_sweep [--matrix FILE.npy] [--points N K] [--json FILE]

A sweep k = 2..N/2 of a redundancy matrix (affinity 1 - R) by k-means with 10 restarts; scikit-learn does it twice: its own
SpectralClustering for each k, and one numpy.linalg.eigh with KMeans for each k. Normalised cut and inertia (of the labels, in
the same embedding for both) are compared for every k. --points: N points of 8 dimensions, K clusters, once.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")
import numpy as np
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.metrics import silhouette_score


def embedding(affinity):
    s = affinity.copy()
    np.fill_diagonal(s, 0)
    w = np.sqrt(s.sum(1))
    laplacian = np.eye(len(s)) - s / w[:, None] / w[None, :]
    values, vectors = np.linalg.eigh(laplacian)
    return vectors / w[:, None]


def cut(affinity, labels):
    """sum over clusters of cut / volume"""
    s = affinity.copy()
    np.fill_diagonal(s, 0)
    one = np.eye(max(labels) + 1)[labels]
    inside = np.einsum("ik,ij,jk->k", one, s, one)
    volume = one.T @ s.sum(1)
    return float((1 - inside / volume).sum())


def inertia(x, labels):
    one = np.eye(max(labels) + 1)[labels]
    centres = (one.T @ x) / one.sum(0)[:, None]
    return float(((x - centres[labels]) ** 2).sum())


def run(program, matrix, least, most, method):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "matrix.npy")
        np.save(path, matrix)
        text = subprocess.run([program, path, str(least), str(most), method, "2"], check=True, capture_output=True).stdout
        return json.loads(text)


def sweep(program, matrix):
    n = len(matrix)
    counts = list(range(2, n // 2 + 1))
    affinity = 1 - matrix
    ours = run(program, matrix, counts[0], counts[-1], "kmeans")
    start = time.perf_counter()
    own = []
    for k in counts:
        labels = SpectralClustering(k, affinity="precomputed", n_init=10, random_state=0, assign_labels="kmeans").fit_predict(affinity)
        silhouette_score(matrix, labels, metric="precomputed")
        own.append(labels)
    own_time = time.perf_counter() - start
    start = time.perf_counter()
    x = embedding(affinity)
    once = []
    for k in counts:
        labels = KMeans(k, n_init=10, random_state=0).fit_predict(x[:, :k])
        silhouette_score(matrix, labels, metric="precomputed")
        once.append(labels)
    once_time = time.perf_counter() - start
    quality = {}
    for name, theirs in (("scikit-learn", own), ("eigh and KMeans", once)):
        worse = {"cut": [], "inertia": []}
        for i, k in enumerate(counts):
            mine = np.array(ours["labels"][i])
            worse["cut"].append(cut(affinity, mine) / cut(affinity, theirs[i]) - 1)
            worse["inertia"].append(inertia(x[:, :k], mine) / inertia(x[:, :k], theirs[i]) - 1)
        quality["beside " + name] = {what: {"no worse for": float(np.mean(np.array(v) <= 1e-9)), "largest excess": float(max(v)),
                                            "median excess": float(np.median(v))} for what, v in worse.items()}
    return {"heads": n, "k": [counts[0], counts[-1]], "ours": ours["seconds"], "scikit-learn": own_time,
            "eigh and KMeans": once_time, "ratios": [own_time / ours["seconds"], once_time / ours["seconds"]], "quality": quality}


def points(program, n, k):
    draw = np.random.default_rng(0)
    centres = draw.random((k, 8))
    p = centres[np.arange(n) % k] + .1 * (draw.random((n, 8)) - .5)
    square = (p**2).sum(1)
    matrix = np.minimum(np.sqrt(np.maximum(square[:, None] + square[None, :] - 2 * p @ p.T, 0) / 8), 1)
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 0)
    found = {"points": n, "k": k}
    for method in ("cluster_qr", "kmeans"):
        ours = run(program, matrix, k, k, method)
        found[method] = {"seconds": ours["seconds"], "megabytes": ours["megabytes"]}
        found[method + " labels"] = ours["labels"][0]
    affinity = 1 - matrix
    start = time.perf_counter()
    theirs = SpectralClustering(k, affinity="precomputed", n_init=10, random_state=0).fit_predict(affinity)
    found["scikit-learn"] = time.perf_counter() - start
    found["scikit-learn megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    best = cut(affinity, theirs)
    for method in ("cluster_qr", "kmeans"):
        found[method]["ratio"] = found["scikit-learn"] / found[method]["seconds"]
        found[method]["cut excess"] = cut(affinity, np.array(found.pop(method + " labels"))) / best - 1
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", required=True)
    options.add_argument("--matrix")
    options.add_argument("--points", nargs=2, type=int, action="append", default=[])
    options.add_argument("--json")
    asked = options.parse_args()
    found = []
    if asked.matrix:
        found.append(sweep(asked.program, np.load(asked.matrix)))
    for n, k in asked.points:
        found.append(points(asked.program, n, k))
    for f in found:
        print(json.dumps(f, indent=1))
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
