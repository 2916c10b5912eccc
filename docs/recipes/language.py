"""Language of the text by py3langid, which has 140 languages in its wheel.

It cannot tell Bosnian, Croatian and Serbian apart in a single sentence, so the probabilities of
related languages are added. Texts of fewer than LEAST letters get no value.
"""

from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

RELATED = {"bs": "hbs", "hr": "hbs", "sr": "hbs", "nb": "no", "nn": "no"}
LEAST = 20  # letters


@cache
def model():
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def language_of(words):
    shares = {}
    for code, share in model().rank(words):
        group = RELATED.get(code, code)
        shares[group] = shares.get(group, 0.0) + share
    code = max(shares, key=shares.get)
    return {"code": code, "probability": shares[code]}


def language(texts):
    return [language_of(words) if len(words) >= LEAST else None for words in texts]
