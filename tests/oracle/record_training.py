#!/usr/bin/env python3
"""Records loss curves of PyTorch's own Transformer layers for tests/nn/training_curve_test.cpp.

Run by hand where PyTorch and NumPy are installed:  python3 record_training.py ../nn/data/training_curve.safetensors

The file holds weights (names as headred's visit_parameters gives them; half precision, so that they are exact in every
type), batches as token numbers with lengths, and the losses of 20 steps in double and in single precision for
  pre   norms before each block and after the stacks, gelu, learned positions, own output matrix with bias
  post  norms after each block, relu, sinusoidal positions, embeddings scaled by sqrt(width), tied output without bias
each trained by
  adam   Adam, label smoothing 0.1, constant rate after a warm-up, one batch a step
  adamw  AdamW, decay of matrices only, norm of all gradients clipped, falling rate, two batches a step
"""
import json
import math
import struct
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, NEURONS, LAYERS, POSITIONS = 32, 4, 48, 2, 12
SOURCE_WORDS, TARGET_WORDS = 29, 31
BEGIN, END, PAD = 1, 2, 0
STEPS, BATCHES = 20, 4


def make_weights(draw):
    """All weights by headred's names."""
    w = {}

    def matrix(name, *shape):
        w[name] = draw.normal(0, 0.2, shape)

    def vector(name, size, around):
        w[name] = around + draw.normal(0, 0.1, size)

    def attention(name):
        for part in ("query", "key", "value", "output"):
            matrix(f"{name}.{part}.weight", WIDTH, WIDTH)
            vector(f"{name}.{part}.bias", WIDTH, 0)
        norm(f"{name}.norm")

    def norm(name):
        vector(f"{name}.scale", WIDTH, 1)
        vector(f"{name}.shift", WIDTH, 0)

    matrix("source.tokens", SOURCE_WORDS, WIDTH)
    matrix("source.positions", POSITIONS, WIDTH)
    matrix("target.tokens", TARGET_WORDS, WIDTH)
    matrix("target.positions", POSITIONS, WIDTH)
    for stack in ("encoder", "decoder"):
        for layer in range(LAYERS):
            name = f"{stack}.{layer}"
            attention(f"{name}.self")
            if stack == "decoder":
                attention(f"{name}.cross")
            matrix(f"{name}.expand.weight", NEURONS, WIDTH)
            vector(f"{name}.expand.bias", NEURONS, 0)
            matrix(f"{name}.contract.weight", WIDTH, NEURONS)
            vector(f"{name}.contract.bias", WIDTH, 0)
            norm(f"{name}.norm")
    norm("encoder_norm")
    norm("decoder_norm")
    matrix("output.table", TARGET_WORDS, WIDTH)
    vector("output.bias", TARGET_WORDS, 0)
    return {name: value.astype(np.float16) for name, value in w.items()}


def make_batches(draw):
    """Pairs of sentences of mixed lengths."""
    def sentences(words, count):
        return [draw.integers(3, words, draw.integers(2, 10)).tolist() for _ in range(count)]

    return [(sentences(SOURCE_WORDS, n), sentences(TARGET_WORDS, n)) for n in (6, 5, 7, 3)]


class Model(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form
        pre = form == "pre"
        options = dict(dropout=0.0, activation="gelu" if pre else "relu", batch_first=True, norm_first=pre)
        self.source = nn.Embedding(SOURCE_WORDS, WIDTH)
        self.target = nn.Embedding(TARGET_WORDS, WIDTH)
        if pre:
            self.source_positions = nn.Embedding(POSITIONS, WIDTH)
            self.target_positions = nn.Embedding(POSITIONS, WIDTH)
            self.output = nn.Linear(WIDTH, TARGET_WORDS)
        else:
            angle = np.arange(POSITIONS)[:, None] / 10000 ** (np.arange(0, WIDTH, 2)[None] / WIDTH)
            table = np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(POSITIONS, WIDTH)
            self.register_buffer("sinusoids", torch.tensor(table, dtype=torch.float64))
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, HEADS, NEURONS, **options), LAYERS,
                                             nn.LayerNorm(WIDTH) if pre else None, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, HEADS, NEURONS, **options), LAYERS,
                                             nn.LayerNorm(WIDTH) if pre else None)

    def embed(self, ids, table, positions):
        x = table(ids)
        if self.form == "pre":
            return x + positions.weight[: ids.shape[1]]
        return x * math.sqrt(WIDTH) + self.sinusoids[: ids.shape[1]].to(x.dtype)

    def forward(self, source, target):
        hidden = source == PAD
        memory = self.encoder(self.embed(source, self.source, getattr(self, "source_positions", None)),
                              src_key_padding_mask=hidden)
        n = target.shape[1]
        ahead = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
        y = self.decoder(self.embed(target, self.target, getattr(self, "target_positions", None)), memory,
                         tgt_mask=ahead, tgt_key_padding_mask=target == PAD, memory_key_padding_mask=hidden)
        return self.output(y) if self.form == "pre" else y @ self.target.weight.T


def fill(model, w):
    def get(name):
        return torch.tensor(w[name].astype(np.float64))

    def set_(parameter, *names):
        value = torch.cat([get(n) for n in names])
        assert parameter.shape == value.shape
        with torch.no_grad():
            parameter.copy_(value)

    def attention(module, name):
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        set_(module.in_proj_weight, *[p + ".weight" for p in parts])
        set_(module.in_proj_bias, *[p + ".bias" for p in parts])
        set_(module.out_proj.weight, name + ".output.weight")
        set_(module.out_proj.bias, name + ".output.bias")

    def norm(module, name):
        set_(module.weight, name + ".scale")
        set_(module.bias, name + ".shift")

    set_(model.source.weight, "source.tokens")
    set_(model.target.weight, "target.tokens")
    for stack in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(model, stack).layers):
            name = f"{stack}.{number}"
            attention(layer.self_attn, name + ".self")
            norm(layer.norm1, name + ".self.norm")
            if stack == "decoder":
                attention(layer.multihead_attn, name + ".cross")
                norm(layer.norm2, name + ".cross.norm")
            norm(layer.norm3 if stack == "decoder" else layer.norm2, name + ".norm")
            for module, part in ((layer.linear1, "expand"), (layer.linear2, "contract")):
                set_(module.weight, f"{name}.{part}.weight")
                set_(module.bias, f"{name}.{part}.bias")
    if model.form == "pre":
        set_(model.source_positions.weight, "source.positions")
        set_(model.target_positions.weight, "target.positions")
        norm(model.encoder.norm, "encoder_norm")
        norm(model.decoder.norm, "decoder_norm")
        set_(model.output.weight, "output.table")
        set_(model.output.bias, "output.bias")


def padded(rows):
    return nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True, padding_value=PAD)


def curve(form, optimizer, dtype, w, batches):
    model = Model(form).to(dtype)
    fill(model, w)
    if optimizer == "adam":
        steps = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    else:
        matrices = [p for n, p in model.named_parameters() if p.dim() == 2]
        others = [p for n, p in model.named_parameters() if p.dim() == 1]
        steps = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  eps=1e-6)
    losses, norms = [], []
    for step in range(1, STEPS + 1):
        used = [batches[step % BATCHES]] if optimizer == "adam" else [batches[step % 2], batches[2 + step % 2]]
        smoothing = 0.1 if optimizer == "adam" else 0.0
        rate = 5e-3 * min(1.0, step / 5) if optimizer == "adam" else 4e-3 * (40 - step) / 40
        total = sum(len(t) + 1 for _, targets in used for t in targets)
        steps.zero_grad()
        loss = 0.0
        for sources, targets in used:
            logits = model(padded(sources), padded([[BEGIN] + t for t in targets]))
            labels = nn.utils.rnn.pad_sequence([torch.tensor(t + [END]) for t in targets], batch_first=True,
                                               padding_value=-100)
            part = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100,
                                   label_smoothing=smoothing, reduction="sum") / total
            part.backward()
            loss += part.item()
        limit = math.inf if optimizer == "adam" else 0.5
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), limit).item())
        for group in steps.param_groups:
            group["lr"] = rate
        steps.step()
        losses.append(loss)
    return np.array(losses), np.array(norms)


def write_safetensors(path, tensors):
    names = {np.dtype(np.float16): "F16", np.dtype(np.float64): "F64", np.dtype(np.int32): "I32"}
    header, offset = {}, 0
    order = sorted(tensors, key=lambda n: (-tensors[n].dtype.itemsize, n))
    for name in order:
        t = tensors[name]
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [offset, offset + t.nbytes]}
        offset += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            f.write(np.ascontiguousarray(tensors[name]).tobytes())


def main():
    torch.set_num_threads(1)
    draw = np.random.default_rng(20240131)
    weights, batches = make_weights(draw), make_batches(draw)
    tensors = dict(weights)
    for number, (sources, targets) in enumerate(batches):
        for side, rows in (("source", sources), ("target", targets)):
            tensors[f"batch.{number}.{side}"] = np.array(sum(rows, []), dtype=np.int32)
            tensors[f"batch.{number}.{side}_lengths"] = np.array([len(r) for r in rows], dtype=np.int32)
    for form in ("pre", "post"):
        for optimizer in ("adam", "adamw"):
            for dtype, name in ((torch.float64, "f64"), (torch.float32, "f32")):
                losses, norms = curve(form, optimizer, dtype, weights, batches)
                tensors[f"loss.{form}.{optimizer}.{name}"] = losses
                tensors[f"norm.{form}.{optimizer}.{name}"] = norms
                print(form, optimizer, name, losses[[0, 1, -1]], norms[[0, -1]])
    write_safetensors(sys.argv[1], tensors)


if __name__ == "__main__":
    main()
