#!/usr/bin/env python3
"""Records what sacreBLEU says of generated pairs of text, for tests/nn/bleu_test.cpp.

    python3 -m pip install sacrebleu
    python3 tests/oracle/record_bleu.py tests/nn/data/bleu.json

The text is made here from a seed: words, punctuation, numbers, escapes, several scripts, blanks of all kinds, empty
lines. Of each hypothesis and reference the sentence scores are kept, of all together and of some subsets the corpus
scores, with and without lower-casing.
"""

import json
import pathlib
import random
import sys

import sacrebleu
from sacrebleu.metrics import BLEU

WORDS = """the a of in Head HEADS prune attention layer, model's "quoted" (in) [brackets] {braces} e.g. U.S. 3.14 1,000
1-2 well-known 5% $7 #tag @name a/b c\\d <skipped> &amp; &quot; &lt;x&gt; & x&y ... -- - . , ; : ! ? '' `` ~ ^ _ under_score = + * |
Straße ÉCOLE naïve ΑΘΗΝΑ σοφός Москва МИР 東京 注意 مرحبا שלום ǅ Ⅷ ﬁn 😀 e\u0301 A\u030a 12.5kg 3,4,5 2-x x-2 .5 5. ,5 -5 5-
a.b a,b 1.a a.1 don't can't""".split()
BLANKS = [" "] * 12 + ["  ", "\t", "\u00a0", "\u2003", "\u3000"]


def sentence(rng):
    count = rng.choice([0, 1, 2, 3, 4, 5, 7, 9, 12, 20])
    text = ""
    for i in range(count):
        text += (rng.choice(BLANKS) if i else "") + rng.choice(WORDS)
    return rng.choice(["", "", "", " "]) + text + rng.choice(["", "", ".", " .", " ", "!", "\t"])


def disturbed(rng, text):
    """A hypothesis for a reference: words dropped, doubled, exchanged, replaced, in another case."""
    words = text.split(" ")
    rate = rng.choice([0, .05, .1, .3, .6])
    out = []
    for word in words:
        draw = rng.random()
        if draw >= rate:
            out.append(word)
        elif draw < rate * .3:
            continue
        elif draw < rate * .5:
            out += [word, word]
        elif draw < rate * .7:
            out.append(rng.choice(WORDS))
        elif draw < rate * .85:
            out.append(word.swapcase() if word.isascii() else word.lower())
        else:
            out.insert(rng.randrange(len(out) + 1), word)
    return " ".join(out)


def main():
    out = pathlib.Path(sys.argv[1])
    rng = random.Random(20211101)
    references = [sentence(rng) for _ in range(230)]
    hypotheses = [disturbed(rng, r) for r in references]
    hypotheses[3], references[7] = "", ""
    hypotheses[11] = references[11] = ""
    rows = []
    for h, r in zip(hypotheses, references):
        rows.append([h, r, *(sacrebleu.sentence_bleu(h, [r], lowercase=low).score for low in (False, True))])
    corpora = []
    for begin, end in ((0, 230), (0, 1), (3, 4), (7, 8), (5, 25), (100, 140), (0, 115), (200, 230), (11, 12)):
        for low in (False, True):
            score = BLEU(lowercase=low).corpus_score(hypotheses[begin:end], [references[begin:end]])
            corpora.append({"begin": begin, "end": end, "lowercase": low, "score": score.score,
                            "precisions": score.precisions, "brevity_penalty": score.bp, "correct": score.counts,
                            "total": score.totals, "hypothesis_length": score.sys_len,
                            "reference_length": score.ref_len})
    document = {"sacrebleu": sacrebleu.__version__, "signature":
                "tok:13a|smooth:exp|eff:no (sentences: eff:yes)", "corpora": corpora, "sentences": rows}
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = ["{"] + [f" {json.dumps(k)}: {json.dumps(document[k])}," for k in ("sacrebleu", "signature")]
    lines.append(' "corpora": [\n' + ",\n".join("  " + json.dumps(c) for c in corpora) + "\n ],")
    lines.append(' "sentences": [\n' + ",\n".join("  " + json.dumps(r) for r in rows) + "\n ]\n}\n")
    out.write_text("\n".join(lines), encoding="ascii")


if __name__ == "__main__":
    main()
