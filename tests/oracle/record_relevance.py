#!/usr/bin/env python3
"""Records the relevance that LXT and Zennit find in a small encoder, for a test of headred's sweeps.

    python3 -m pip install torch lxt zennit safetensors
    python3 tests/oracle/record_relevance.py [--out tests/lrp/data/relevance.safetensors] [--time]

The encoder (post-norm, ReLU, f64) has weights of its own and is written twice: with LXT's functions for AttnLRP, and
with Zennit's rules (Epsilon for linear, Norm for sums, Pass for norms and ReLU), where attention is a constant mixture
of the values that follows the epsilon rule. Both leave a bias its share. Recorded: all weights under headred's names,
the token ids, the logits, and for each of both the relevance at the attention's outputs, `<method>.<layer>` (T, D), of
the greatest logit of the last token, beginning with 1. --time instead measures a larger encoder in f32, one thread.
"""

import argparse
import pathlib
import time

import lxt.explicit.functional as rules
import torch
from safetensors.torch import save_file
from zennit.layer import Sum
from zennit.rules import Epsilon, Norm, Pass

EPSILON = 1e-9


class Identity(torch.autograd.Function):
    """A function whose output's relevance is its input's."""

    @staticmethod
    def forward(ctx, x, f):
        return f(x)

    @staticmethod
    def backward(ctx, relevance):
        return relevance, None


class Mixture(torch.autograd.Function):
    """A v with constant A, by the epsilon rule."""

    @staticmethod
    def forward(ctx, a, v):
        y = a @ v
        ctx.save_for_backward(a, v, y)
        return y

    @staticmethod
    def backward(ctx, relevance):
        a, v, y = ctx.saved_tensors
        factor = relevance / (y + EPSILON * torch.where(y < 0, -1.0, 1.0).to(y))
        return None, v * (a.transpose(-1, -2) @ factor)


class Encoder:
    def __init__(self, layers, width, heads, neurons, vocabulary, positions, dtype, seed=7):
        self.layers, self.width, self.heads = layers, width, heads
        draw = torch.Generator().manual_seed(seed)
        uniform = lambda *shape: (2 * torch.rand(*shape, generator=draw, dtype=torch.float64) - 1).to(dtype)
        self.weights = w = {"source.tokens": uniform(vocabulary, width), "source.positions": uniform(positions, width)}

        def linear(name, out, inputs):
            w[name + ".weight"] = uniform(out, inputs) * (3 / inputs) ** 0.5
            w[name + ".bias"] = uniform(out) * 0.2

        def norm(name):
            w[name + ".scale"] = 1 + 0.2 * uniform(width)
            w[name + ".shift"] = 0.2 * uniform(width)

        for layer in range(layers):
            at = f"encoder.{layer}."
            for part in ("query", "key", "value", "output"):
                linear(at + "self." + part, width, width)
            norm(at + "self.norm")
            linear(at + "expand", neurons, width)
            linear(at + "contract", width, neurons)
            norm(at + "norm")
        w["output.table"] = uniform(vocabulary, width) * (3 / width) ** 0.5
        w["output.bias"] = uniform(vocabulary) * 0.2
        self.modules = {}

    def zennit_linear(self, weight, bias):
        module = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
        module.weight, module.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)
        return self.hooked(module, Epsilon(epsilon=EPSILON))

    @staticmethod
    def hooked(module, rule):
        module.requires_grad_(False)
        rule.register(module)
        return module

    def module(self, name, make):
        if name not in self.modules:
            self.modules[name] = make()
        return self.modules[name]

    def forward(self, ids, method):
        """ids (B, T); returns logits (B, T, V), the attentions' outputs."""
        w, attnlrp = self.weights, method == "attnlrp"

        def linear(x, name, weight=None, bias=None, factor=1.0):
            weight = factor * (w[name + ".weight"] if weight is None else weight)
            bias = factor * (w[name + ".bias"] if bias is None else bias)
            if attnlrp:
                return rules.linear_epsilon(x, weight, bias, epsilon=EPSILON)
            return self.module(name, lambda: self.zennit_linear(weight, bias))(x)

        def add(a, b, name):
            if attnlrp:
                return rules.add2(a, b, epsilon=EPSILON)
            total = self.module(name + ".sum", lambda: self.hooked(Sum(), Norm(stabilizer=EPSILON)))
            return total(torch.stack([a, b], -1))

        def norm(x, name):
            def run(v):
                return torch.nn.functional.layer_norm(v, (self.width,), w[name + ".scale"], w[name + ".shift"], 1e-5)

            if attnlrp:
                return Identity.apply(x, run)

            def make():
                module = torch.nn.LayerNorm(self.width, eps=1e-5, dtype=x.dtype)
                module.weight = torch.nn.Parameter(w[name + ".scale"])
                module.bias = torch.nn.Parameter(w[name + ".shift"])
                return self.hooked(module, Pass())

            return self.module(name, make)(x)

        def relu(x, name):
            if attnlrp:
                return Identity.apply(x, torch.relu)
            return self.module(name + ".relu", lambda: self.hooked(torch.nn.ReLU(), Pass()))(x)

        size = self.width // self.heads
        split = lambda m: m.unflatten(-1, (self.heads, size)).transpose(-2, -3)
        x = (w["source.tokens"][ids] + w["source.positions"][: ids.shape[-1]]).requires_grad_()
        contexts = []
        for layer in range(self.layers):
            at = f"encoder.{layer}."
            # the scale of the scores is part of the queries' weights: it is no op that relevance has to pass
            q = split(linear(x, at + "self.query", factor=size**-0.5))
            k, v = split(linear(x, at + "self.key")), split(linear(x, at + "self.value"))
            if attnlrp:
                a = rules.softmax(rules.matmul(q, k.transpose(-1, -2), epsilon=EPSILON), -1)
                y = rules.matmul(a, v, epsilon=EPSILON)
            else:
                y = Mixture.apply(torch.softmax(q @ k.transpose(-1, -2), -1).detach(), v)
            y = y.transpose(-2, -3).flatten(-2)
            y.retain_grad()
            contexts.append(y)
            x = norm(add(x, linear(y, at + "self.output"), at + "self"), at + "self.norm")
            x = norm(add(x, linear(relu(linear(x, at + "expand"), at), at + "contract"), at), at + "norm")
        return linear(x, "output", w["output.table"], w["output.bias"]), contexts


def measure():
    torch.set_num_threads(1)
    ids = torch.randint(1000, (16, 64), generator=torch.Generator().manual_seed(1))
    for method in ("attnlrp", "epsilon"):
        best = float("inf")
        model = Encoder(6, 256, 8, 1024, 1000, 64, torch.float32)
        for _ in range(5):
            logits, _ = model.forward(ids, method)
            seed = torch.zeros_like(logits)
            seed[:, -1, 0] = 1
            begin = time.process_time()
            logits.backward(seed)
            best = min(best, time.process_time() - begin)
        print(f"{method}: {1e3 * best:.1f} ms for the way back")


def record(path):
    model = Encoder(2, 16, 4, 24, 11, 12, torch.float64)
    ids = torch.randint(11, (1, 9), generator=torch.Generator().manual_seed(1))
    recorded = dict(model.weights)
    recorded["ids"] = ids[0].to(torch.int32)
    for method in ("attnlrp", "epsilon"):
        logits, contexts = model.forward(ids, method)
        seed = torch.zeros_like(logits)
        seed[0, -1, logits[0, -1].argmax()] = 1
        logits.backward(seed)
        recorded["logits"] = logits[0].detach()
        for layer, context in enumerate(contexts):
            recorded[f"{method}.{layer}"] = context.grad[0]
    save_file({name: value.detach().clone().contiguous() for name, value in recorded.items()}, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).parent.parent / "lrp/data/relevance.safetensors"
    parser.add_argument("--out", type=pathlib.Path, default=default)
    parser.add_argument("--time", action="store_true")
    arguments = parser.parse_args()
    if arguments.time:
        measure()
    else:
        record(arguments.out)


if __name__ == "__main__":
    main()
