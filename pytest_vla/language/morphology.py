"""English morphology: the forms of a verb or noun, and the lemma of a form. Penn tags name the forms."""

import re
from functools import cache

IRREGULAR = {
    "be": ("is", "was", "been"),
    "have": ("has", "had", "had"),
    "do": ("does", "did", "done"),
    "go": ("goes", "went", "gone"),
    "get": ("gets", "got", "gotten"),
    "give": ("gives", "gave", "given"),
    "take": ("takes", "took", "taken"),
    "bring": ("brings", "brought", "brought"),
    "put": ("puts", "put", "put"),
    "set": ("sets", "set", "set"),
    "lay": ("lays", "laid", "laid"),
    "shut": ("shuts", "shut", "shut"),
    "slide": ("slides", "slid", "slid"),
    "swing": ("swings", "swung", "swung"),
    "draw": ("draws", "drew", "drawn"),
    "withdraw": ("withdraws", "withdrew", "withdrawn"),
    "find": ("finds", "found", "found"),
    "hold": ("holds", "held", "held"),
    "keep": ("keeps", "kept", "kept"),
    "leave": ("leaves", "left", "left"),
    "sit": ("sits", "sat", "sat"),
    "stand": ("stands", "stood", "stood"),
    "see": ("sees", "saw", "seen"),
    "know": ("knows", "knew", "known"),
    "think": ("thinks", "thought", "thought"),
    "mean": ("means", "meant", "meant"),
    "make": ("makes", "made", "made"),
    "tell": ("tells", "told", "told"),
    "forget": ("forgets", "forgot", "forgotten"),
    "let": ("lets", "let", "let"),
    "send": ("sends", "sent", "sent"),
    "spin": ("spins", "spun", "spun"),
    "cut": ("cuts", "cut", "cut"),
    "say": ("says", "said", "said"),
    "feel": ("feels", "felt", "felt"),
    "come": ("comes", "came", "come"),
    "begin": ("begins", "began", "begun"),
    "throw": ("throws", "threw", "thrown"),
    "hang": ("hangs", "hung", "hung"),
    "grind": ("grinds", "ground", "ground"),
    "seek": ("seeks", "sought", "sought"),
    "light": ("lights", "lit", "lit"),
}
"""Of verbs: third person, past, past participle."""

BE = {"am": "VBP", "are": "VBP", "is": "VBZ", "was": "VBD", "were": "VBD", "been": "VBN", "being": "VBG", "be": "VB"}
LEMMAS = {
    **dict.fromkeys((*BE, "'m", "'re", "'s"), "be"),
    "ca": "can",
    "wo": "will",
    "n't": "not",
    "'d": "would",
    "'ll": "will",
    "'ve": "have",
    "got": "get",
    "has": "have",
    "had": "have",
    "does": "do",
    "did": "do",
}
"""Of words that no ending explains."""

DOUBLING = frozenset(
    ("put", "set", "get", "shut", "sit", "stop", "drop", "grab", "plug", "tip", "flip", "slip", "pop", "cut",
     "let", "forget", "fit", "pat", "tap", "tug", "nab", "snap", "step", "begin", "spin", "wrap", "trap", "plop",
     "jam", "hop", "prop", "chop", "pin", "dip", "lug", "swap", "transfer", "rid", "drag", "hug", "refer",
     "prefer", "admit", "omit", "permit", "unplug", "zip", "grip", "strip", "skip", "clip", "trim", "stir", "cap",
     "map", "top", "mop", "scrub", "rub")
)  # fmt: skip
"""Verbs whose last consonant doubles before an ending."""

SILENT_E = frozenset(
    ("activate", "advance", "allocate", "arrange", "bake", "balance", "bring", "cause", "change", "choose",
     "close", "combine", "come", "complete", "compose", "create", "deactivate", "decide", "define", "describe",
     "dice", "disable", "displace", "dislodge", "divide", "drive", "ease", "elevate", "enable", "engage",
     "examine", "exchange", "execute", "expose", "fire", "give", "glide", "grate", "guide", "handle", "have",
     "hoist", "hide", "ignite", "illuminate", "include", "incline", "inspire", "issue", "invite", "isolate",
     "leave", "like", "line", "locate", "lose", "lure", "make", "manage", "maneuver", "merge", "migrate", "move",
     "name", "navigate", "notice", "nudge", "operate", "pace", "paste", "phase", "pile", "place", "please", "poke",
     "prepare", "preserve", "produce", "promise", "propose", "provide", "raise", "rearrange", "reduce", "release",
     "relocate", "remove", "reposition", "replace", "require", "rescue", "reserve", "reshuffle", "resume",
     "retire", "retrieve", "reuse", "rinse", "rise", "rotate", "save", "score", "scrape", "secure", "see", "seize",
     "separate", "serve", "settle", "shake", "shape", "share", "shave", "shove", "shuffle", "situate", "size",
     "slice", "slide", "smile", "snuggle", "solve", "spare", "squeeze", "state", "store", "straddle", "strike",
     "suppose", "take", "taste", "time", "tune", "type", "unite", "use", "utilize", "value", "vibrate", "wake",
     "waste", "wipe", "write", "hope", "guarantee", "schedule", "cradle", "nestle", "saddle", "tackle", "wiggle",
     "jiggle", "generate", "initiate", "energize", "stabilize", "organize", "realize", "recognize", "minimize",
     "finalize", "initialize")
)  # fmt: skip
"""Verbs that lose an e before an ending."""

SINGULAR_S = frozenset(("contents", "this", "its", "always", "perhaps", "series", "gas", "bus", "lens", "us", "as"))
IES = frozenset(("cookies", "movies", "brownies", "smoothies", "pies"))
"""Forms whose singular ends in ie."""


@cache
def inflected(lemma: str, tag: str) -> str:
    """Return the form of a verb (VB, VBP, VBZ, VBG, VBD, VBN) or noun (NN, NNS); the lemma for any other tag."""
    if tag in ("VBZ", "VBD", "VBN") and lemma in IRREGULAR:
        return IRREGULAR[lemma][("VBZ", "VBD", "VBN").index(tag)]
    if tag in ("VBZ", "NNS"):
        if lemma.endswith("shelf"):
            return lemma[:-1] + "ves"
        if re.search(r"[^aeiou]y$", lemma):
            return lemma[:-1] + "ies"
        return lemma + ("es" if re.search(r"(?:s|x|z|ch|sh|[^aeo]o)$", lemma) else "s")
    stem = lemma + lemma[-1] if lemma in DOUBLING else lemma
    if tag == "VBG":
        return (lemma[:-1] if re.search(r"[a-z][^eoy]e$", lemma) else stem) + "ing"
    if tag in ("VBD", "VBN"):
        if lemma.endswith("e"):
            return lemma + "d"
        return lemma[:-1] + "ied" if re.search(r"[^aeiou]y$", lemma) else stem + "ed"
    return lemma


@cache
def lemma(text: str, pos: str, tag: str) -> str:
    """Return the dictionary form of a lower-cased word by its part of speech and Penn tag.

    A word whose tag means no ending is returned unchanged: ``need`` is no past tense.
    """
    if (text in LEMMAS and pos in ("AUX", "VERB")) or text == "n't":
        return LEMMAS[text]
    if tag in ("VBZ", "VBD", "VBN"):
        for base, forms in IRREGULAR.items():
            if text in forms:
                return base
    if tag == "NNS" or tag == "VBZ":
        return _without_s(text)
    if tag == "VBG" and text.endswith("ing") and len(text) > 4:
        return _without_ending(text[:-3])
    if tag in ("VBD", "VBN") and text.endswith("ed") and len(text) > 3:
        return text[:-3] + "y" if text.endswith("ied") else _without_ending(text[:-2])
    return text


def _without_s(text: str) -> str:
    if text in SINGULAR_S or text == "s" or not text.endswith("s") or text.endswith("ss"):
        return text
    if text.endswith("ies") and text not in IES:
        return text[:-3] + "y"
    if text.endswith("shelves"):
        return text[:-3] + "f"
    return text[:-2] if re.search(r"(?:ss|x|zz|ch|sh|[^aeo]o|gas)es$", text) else text[:-1]


def _without_ending(stem: str) -> str:
    """Return the verb without -ing or -ed: settl, shov and plac had an e, dropp a p."""
    if f"{stem}e" in SILENT_E or f"{stem}e" in IRREGULAR:
        return f"{stem}e"
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] in "bdgmnprt":
        return stem[:-1]
    return f"{stem}e" if re.search(r"(?:[cvu]|dg|[bcdfgkptz]l|[a-z][iy]z)$", stem) else stem
