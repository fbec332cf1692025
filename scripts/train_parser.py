"""Train the small parser on sentences drawn from the rules in train_parser.toml; the same seed gives the same weights.

    .venv-language/bin/python scripts/train_parser.py

It takes about ten minutes on one core, reads no text but the rules and the suites' instructions, and writes
``pytest_vla/language/parser_model``. benchmarks/pride.py compares the weights with LIBERO-Para's published S_T: the
tasks that the rules were written by (0-5) apart from the others (6-9).
"""

import argparse
import os
import random
import shutil
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_vla.language.generator import CELLS, said
from pytest_vla.language.grammar import read
from pytest_vla.language.models import MODEL
from pytest_vla.language.notation import HEAD, Phrase, Word, joined
from pytest_vla.language.rules import drawn, rules_from
from pytest_vla.plan.manifests import load_suite
from pytest_vla.util.extras import required

CONFIG = Path(__file__).with_suffix(".toml")
ENDINGS = {"NN": "", "NNS": "s", "VB": "", "VBP": "", "VBZ": "s", "VBG": "ing", "VBN": "ed", "JJ": "", "RB": "ly"}
"""How words of a Penn tag end, of those that may be replaced."""

LONGEST = 32
"""Words of the longest sentence that is trained on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=CONFIG, help="rules and sizes")
    parser.add_argument("--out", type=Path, default=MODEL, help="folder of the weights; replaced")
    parser.add_argument("--sentences", type=int, help="other than the config's number of sentences, for a trial")
    parser.add_argument("--epochs", type=int, help="other than the config's number of passes, for a trial")
    options = parser.parse_args()
    # One thread: sums in another order would give other weights.
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    table = tomllib.loads(options.config.read_text(encoding="utf-8"))
    train(table, options.out, options.sentences or table["sentences"], options.epochs or table["epochs"])


def sentences(table: dict[str, Any], count: int) -> Iterator[Phrase]:
    """Different sentences in the order in which they are drawn: of the rules, and a share of the generator's."""
    rules, rng = rules_from(table), random.Random(table["seed"])
    instructions = sorted({task.language for name in table["suites"] for task in load_suite(name).tasks})
    seen: set[tuple[str, ...]] = set()
    while len(seen) < count:
        phrase: Phrase | None
        if rng.random() < table["generated"]:
            phrase = said(read(rng.choice(instructions)), rng, *rng.choice(CELLS))
            if phrase is None:
                continue
        else:
            phrase = joined(drawn(rules, "sentence", rng))
        words = tuple(word.text for word in phrase)
        if words not in seen and len(words) <= LONGEST:
            seen.add(words)
            yield tuple(_unheard(word, rng) if rng.random() < table["unheard"] else word for word in phrase)


def _unheard(word: Word, rng: random.Random) -> Word:
    """A made-up word in the place of a noun, a verb, an adjective or an adverb in -ly: what a word is shows by the
    words around it as well."""
    ending = ENDINGS.get(word.tag)
    if word.pos == "AUX" or ending is None or (word.tag == "RB" and not word.text.endswith("ly")):
        return word
    stem = "".join(rng.choice("bcdfghklmnprstvw") + rng.choice("aeiou") for _ in range(rng.randint(1, 3)))
    return replace(word, text=stem + rng.choice("bdgklmnprst") + ending)


def train(table: dict[str, Any], out: Path, count: int, epochs: int) -> None:
    """Draws ``count`` sentences, trains for so many passes, and writes the pipeline into ``out``."""
    spacy, thinc = required("spacy"), required("thinc.api")
    new_document, new_example = required("spacy.tokens").Doc, required("spacy.training").Example
    start = time.monotonic()
    required("spacy.util").fix_random_seed(table["seed"])
    nlp = spacy.blank("en")
    width = table["width"]
    nlp.add_pipe("tok2vec", config={"model": _tok2vec(width, table["depth"])})
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": width, "upstream": "*"}
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}})
    transitions = {
        "@architectures": "spacy.TransitionBasedParser.v2", "state_type": "parser", "extra_state_tokens": False,
        "hidden_width": 64, "maxout_pieces": 2, "use_upper": True, "tok2vec": listener,
    }  # fmt: skip
    nlp.add_pipe("parser", config={"model": transitions, "min_action_freq": 5})
    examples = []
    for phrase in sentences(table, count):
        words = [word.text for word in phrase]
        starts = [index == 0 for index in range(len(words))]
        deps = ["ROOT" if word.dep == HEAD else word.dep for word in phrase]
        reference = new_document(
            nlp.vocab, words=words, tags=[f"{word.pos}|{word.tag}" for word in phrase],
            heads=[word.head for word in phrase], deps=deps, sent_starts=starts,
        )  # fmt: skip
        examples.append(new_example(new_document(nlp.vocab, words=words, sent_starts=starts), reference))
    nlp.initialize(lambda: examples)
    total = sum(len(example.reference) for example in examples)
    print(f"{count} sentences, {total} words, {time.monotonic() - start:.0f} s", flush=True)
    rng = random.Random(table["seed"])
    optimizer = thinc.Adam(0.001, L2=0.0, grad_clip=1.0)
    for epoch in range(epochs):
        optimizer.learn_rate = 0.002 * (1 - epoch / epochs) + 0.0001
        rng.shuffle(examples)
        losses: dict[str, float] = {}
        for batch in required("spacy.util").minibatch(examples, 64):
            nlp.update(batch, sgd=optimizer, losses=losses, drop=table["dropout"])
        shown = ", ".join(f"{name} {loss:.0f}" for name, loss in losses.items())
        print(f"pass {epoch + 1}: losses {shown}, {time.monotonic() - start:.0f} s", flush=True)
    write(nlp, out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {size / 1e6:.1f} MB, {time.monotonic() - start:.0f} s")


def _tok2vec(width: int, depth: int) -> dict[str, Any]:
    embed = {
        "@architectures": "spacy.MultiHashEmbed.v2", "width": width, "attrs": ["NORM", "PREFIX", "SUFFIX"],
        "rows": [2000, 500, 1000], "include_static_vectors": False,
    }  # fmt: skip
    encode = {
        "@architectures": "spacy.MaxoutWindowEncoder.v2", "width": width, "depth": depth, "window_size": 1,
        "maxout_pieces": 3,
    }  # fmt: skip
    return {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": encode}


def write(nlp: Any, out: Path) -> None:
    """The pipeline's folder, whole or not at all; without the words that it has met, which it does not need."""
    fresh = out.with_name(f"{out.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    nlp.to_disk(fresh)
    shutil.rmtree(out, ignore_errors=True)
    fresh.rename(out)


if __name__ == "__main__":
    main()
