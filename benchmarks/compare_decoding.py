#!/usr/bin/env python3
"""headred's greedy decoding beside PyTorch's, of one model, in one run on this machine.

    python3 -m pip install torch safetensors
    python3 benchmarks/compare_decoding.py --program build/check/benchmarks/decoding_run --model DIR --data FILE
                                           [--batch 64] [--threads 2] [--rounds 3]

DIR: config.json, model.safetensors and vocabularies of a small pre-norm encoder-decoder with names as of MarianMT. FILE:
SOURCE<tab>TARGET lines, read by character. Both keep keys and values, take batches of sources of like length, and stop
a batch when its last sentence has ended. Medians, in turns; how many sentences come out the same is printed too.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import time

import torch
from safetensors.torch import load_file
from torch.nn import functional


class translator:
    def __init__(self, folder):
        self.w = load_file(folder / "model.safetensors")
        self.c = json.loads((folder / "config.json").read_text())
        self.width, self.heads = self.c["d_model"], self.c["encoder_attention_heads"]
        self.size = self.width // self.heads
        half = self.width // 2
        frequency = torch.exp(torch.arange(half) * (-math.log(10000) / (half - 1)))
        angle = torch.arange(1, 513)[:, None] * frequency[None, :]
        self.positions = torch.cat([angle.sin(), angle.cos()], 1)
        self.scale = self.width ** .5
        # one product for queries, keys and values where all three read the same
        for side, count in ("encoder", self.c["encoder_layers"]), ("decoder", self.c["decoder_layers"]):
            for n in range(count):
                at = f"model.{side}.layers.{n}.self_attn"
                for part in "weight", "bias":
                    self.w[f"{at}.qkv.{part}"] = torch.cat([self.w[f"{at}.{p}_proj.{part}"] for p in "qkv"])

    def linear(self, x, name):
        return functional.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def norm(self, x, name):
        return functional.layer_norm(x, (self.width,), self.w[name + ".weight"], self.w[name + ".bias"],
                                     self.c["layer_norm_eps"])

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, self.size).transpose(1, 2)

    def join(self, x):
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], self.width)

    def feed_forward(self, x, at):
        y = self.norm(x, at + ".final_layer_norm")
        return x + self.linear(functional.relu(self.linear(y, at + ".fc1")), at + ".fc2")

    def encode(self, ids, mask):
        x = self.w["model.encoder.embed_tokens.weight"][ids] * self.scale + self.positions[: ids.shape[1]]
        for n in range(self.c["encoder_layers"]):
            at = f"model.encoder.layers.{n}"
            q, k, v = self.linear(self.norm(x, at + ".self_attn_layer_norm"), at + ".self_attn.qkv").chunk(3, 2)
            a = functional.scaled_dot_product_attention(self.split(q), self.split(k), self.split(v), attn_mask=mask)
            x = self.feed_forward(x + self.linear(self.join(a), at + ".self_attn.out_proj"), at)
        return self.norm(x, "model.encoder.layer_norm")

    def greedy(self, sources, first, last, most):
        count, longest = len(sources), max(map(len, sources))
        ids = torch.zeros(count, longest, dtype=torch.long)
        mask = torch.zeros(count, 1, 1, longest, dtype=torch.bool)
        for i, s in enumerate(sources):
            ids[i, : len(s)] = torch.tensor(s)
            mask[i, ..., : len(s)] = True
        x = self.encode(ids, mask)
        layers = self.c["decoder_layers"]
        cross = [[self.split(self.linear(x, f"model.decoder.layers.{n}.encoder_attn.{p}_proj")) for p in "kv"]
                 for n in range(layers)]
        kept = [[torch.empty(count, self.heads, most + 1, self.size) for _ in "kv"] for _ in range(layers)]
        token = torch.full((count,), first)
        ended = torch.zeros(count, dtype=torch.bool)
        out = []
        for t in range(most):
            x = (self.w["model.decoder.embed_tokens.weight"][token] * self.scale + self.positions[t])[:, None]
            for n in range(layers):
                at = f"model.decoder.layers.{n}"
                q, k, v = self.linear(self.norm(x, at + ".self_attn_layer_norm"), at + ".self_attn.qkv").chunk(3, 2)
                keys, values = kept[n]
                keys[:, :, t], values[:, :, t] = self.split(k)[:, :, 0], self.split(v)[:, :, 0]
                a = functional.scaled_dot_product_attention(self.split(q), keys[:, :, : t + 1], values[:, :, : t + 1])
                x = x + self.linear(self.join(a), at + ".self_attn.out_proj")
                q = self.split(self.linear(self.norm(x, at + ".encoder_attn_layer_norm"), at + ".encoder_attn.q_proj"))
                a = functional.scaled_dot_product_attention(q, *cross[n], attn_mask=mask)
                x = self.feed_forward(x + self.linear(self.join(a), at + ".encoder_attn.out_proj"), at)
            logits = self.linear(self.norm(x, "model.decoder.layer_norm"), "lm_head")[:, 0]
            token = logits.argmax(1)
            out.append(token)
            ended |= token == last
            if bool(ended.all()):
                break
        rows = torch.stack(out, 1).tolist()
        return [row[: row.index(last)] if last in row else row for row in rows]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", required=True)
    options.add_argument("--model", required=True, type=pathlib.Path)
    options.add_argument("--data", required=True, type=pathlib.Path)
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    torch.set_flush_denormal(True)

    def symbols(name):
        lines = (asked.model / name).read_text(encoding="utf-8").split("\n")
        return {s: i for i, s in enumerate(lines)}

    source, target = symbols("source_vocabulary.txt"), symbols("target_vocabulary.txt")
    texts = [line.split("\t")[0] for line in asked.data.read_text(encoding="utf-8").splitlines() if line]
    ids = [[source.get(c, source["<unk>"]) for c in text] for text in texts]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    model = translator(asked.model)

    def theirs():
        found = [None] * len(ids)
        start = time.perf_counter()
        with torch.inference_mode():
            for at in range(0, len(order), asked.batch):
                part = order[at : at + asked.batch]
                for i, row in zip(part, model.greedy([ids[i] for i in part], target["<s>"], target["</s>"], 200)):
                    found[i] = row
        return time.perf_counter() - start, found

    def ours():
        words = [asked.program, asked.model, asked.data, asked.batch, asked.threads, 3]
        result = json.loads(subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout)
        return min(result["seconds"][1:]), result["tokens"]

    theirs()
    times = {"headred": [], "PyTorch": []}
    for _ in range(asked.rounds):
        seconds, mine = ours()
        times["headred"].append(seconds)
        seconds, other = min(theirs(), theirs())
        times["PyTorch"].append(seconds)
    same = sum(a == b for a, b in zip(mine, other))
    ours_, theirs_ = (statistics.median(times[k]) for k in ("headred", "PyTorch"))
    print(f"{len(ids)} sentences in batches of {asked.batch}, {asked.threads} threads; {same} come out the same")
    print(f"headred {1e3 * ours_:.1f} ms, PyTorch {1e3 * theirs_:.1f} ms: {theirs_ / ours_:.2f} times as fast")


if __name__ == "__main__":
    main()
