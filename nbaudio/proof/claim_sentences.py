"""Sentences about a claim: how many labels are right, whether that is the target, what is left."""

import math
from collections.abc import Mapping
from typing import Any

from nbaudio.core.report import count, percent, percent_down

_NEARLY = 1e-6
_LEAST_SHOWN = 0.001  # lower bounds below it are shown as 0 %
_WHAT_HELPS = (
    "judge unsure clips again, correct wrong texts, or take a higher --min-similarity and prove it "
    "by a new round"
)


def how_right(claim: Mapping[str, Any], confidence: float, *, selected: bool) -> str:
    """Say how many of the clips are right at least, as in ``corpus.json``.

    `selected` is whether a selection says what ships; if not, the claim is about all segments with
    a similarity of 0.8 or more.
    """
    if selected:
        what = "clips that ship"
    else:
        what = "segments with a similarity of 0.8 or more (nothing is selected yet)"
    if claim["low"] is None:
        return "Nothing ships."
    if not claim["reviewed"]:
        return (
            f"Of the {claim['segments']:,} {what}, none was reviewed: "
            "how many are right is not known."
        )
    sure = f"({percent(confidence)} confidence)"
    sampled = claim.get("sampled")
    if not sampled:
        return f"Of the {claim['segments']:,} {what}, {_bounds(claim)} {sure}."
    number = sampled["not_sampled"]
    verb = "is" if number == 1 else "are"
    new = (
        f"Of the {claim['segments']:,} {what}, {number:,} {verb} new or changed since they could "
        "be drawn, and not sampled yet."
    )
    if sampled["low"] is None:
        return new
    return (
        f"{new} Of the other {sampled['segments']:,}, at least {percent_down(sampled['low'])} are "
        f"right {sure}. With the {number:,} counted as wrong, at least "
        f"{percent_down(claim['low'])} of all are right."
    )


def _bounds(claim: Mapping[str, Any]) -> str:
    """Say between which bounds the share of right clips is, as far as they tell something.

    The upper bound tells something if it is below the target.
    """
    at_least = f"at least {percent_down(claim['low'])}"
    at_most = f"at most {_percent_up(claim['high'])}"
    if claim["high"] >= claim["target"]:
        return f"{at_least} are right"
    if claim["low"] < _LEAST_SHOWN:
        return f"{at_most} are right"
    return f"{at_least} and {at_most} are right"


def _percent_up(share: float) -> str:
    """Format an upper bound in percent, rounded up to one decimal."""
    return percent(math.ceil(1000 * share - _NEARLY) / 1000)


def is_target_proven(claim: Mapping[str, Any]) -> str:
    """Say whether the target of a claim is proven, and since when.

    If it is not, say how many more reviews that is expected to take, and never more than there are
    clips; or why reviews alone cannot prove it, and what helps.
    """
    target = percent(claim["target"])
    progress = claim["progress"]
    if claim["proven"]:
        answer = f"yes, at least {target} are right{_since(progress)}"
    elif "unreviewed" not in progress:  # a claim of an earlier version has no such key
        answer = f"no, {target} is not proven"
    elif not claim["reviewed"]:
        answer = f"no, nothing was reviewed yet; {_least_reviews(progress, target)}"
    elif progress["least"] is None:
        answer = f"no; {_out_of_reach(claim, target)}"
    elif progress["expected"] is None:
        answer = f"no; {_not_expected(claim, target)}"
    else:
        answer = f"no, not yet; {_expected_reviews(progress, target)}"
    return answer


def _since(progress: Mapping[str, Any]) -> str:
    """Return the verdict and the time since which a target is proven; empty if unknown."""
    if "since" not in progress:
        return ""
    time = progress["since"][:16].replace("T", " ")
    return f"; proven since verdict {progress['verdicts']:,} ({time} UTC)"


def _least_reviews(progress: Mapping[str, Any], target: str) -> str:
    """Say how many reviews prove the target if all of them are right."""
    least = progress["least"]
    if least >= progress["unreviewed"]:
        return (
            f"to prove {target}, all {least:,} clips have to be reviewed: they are too few for a "
            "sample"
        )
    return f"to prove {target}, it takes {least:,} reviews if all of them are right, else more"


def _out_of_reach(claim: Mapping[str, Any], target: str) -> str:
    """Say that more is wrong than the target allows."""
    faulty = claim["progress"]["faulty"]
    allowed = claim["progress"]["allowed"]
    verb = "is" if faulty == 1 else "are"
    return (
        f"even if all {claim['segments']:,} clips were reviewed and the others right, {target} "
        f"would not be reached: {faulty:,} of them {verb} wrong or unsure, and {target} allows "
        f"{allowed:,}; {_WHAT_HELPS}"
    )


def _not_expected(claim: Mapping[str, Any], target: str) -> str:
    """Say that the estimate is below the target."""
    if claim["precision"] is None:
        estimate = ""
    else:
        estimate = f" (estimate: {percent(claim['precision'])})"
    return (
        f"even if all {claim['segments']:,} clips were reviewed, fewer than {target} are expected "
        f"to be right{estimate}; {_WHAT_HELPS}"
    )


def _expected_reviews(progress: Mapping[str, Any], target: str) -> str:
    """Say how many more reviews are expected to prove the target."""
    expected = progress["expected"]
    unreviewed = progress["unreviewed"]
    if expected >= unreviewed:
        return f"to prove {target}, all {unreviewed:,} clips that are left have to be reviewed"
    least = progress["least"]
    return (
        f"{count(expected, 'more reviews')} of the {unreviewed:,} clips that are left are expected "
        f"to prove {target}, {least:,} if all of them are right"
    )


def describe_choice(claim: Mapping[str, Any]) -> str:
    """Say how what ships differs from the rule that was fixed before verdicts were heard.

    And what a new round would prove. Empty if what ships is the rule. Segments that are not sampled
    yet are in the sentence of `how_right`.
    """
    rule = claim["rule"]
    left_out = rule.get("left_out", 0)
    added = rule.get("added", 0)
    if not left_out and not added:
        return ""
    not_sampled = (claim.get("sampled") or {}).get("not_sampled", 0)
    sentences = [
        _describe_left_out(left_out),
        _describe_added(max(added - not_sampled, 0)),
        _fresh_round(claim),
    ]
    return " ".join(filter(None, sentences))


def _describe_left_out(number: int) -> str:
    """Say how many segments of the rule were left out; empty for none."""
    if not number:
        return ""
    verb = "was" if number == 1 else "were"
    return (
        f"{count(number, 'segments')} {verb} left out since the rule was fixed that the verdicts "
        "are about: faults among them that nobody has found count against what ships."
    )


def _describe_added(number: int) -> str:
    """Say how many segments ship that are not in the rule; empty for none."""
    if not number:
        return ""
    verb = "was" if number == 1 else "were"
    return (
        f"{count(number, 'clips')} of what ships {verb} added since, such as those that a budget "
        "takes in place of reviewed ones: they count as wrong until a new round can draw them."
    )


def _fresh_round(claim: Mapping[str, Any]) -> str:
    """Say how many fresh reviews would prove the target."""
    target = percent(claim["target"])
    reviews = claim["rule"].get("fresh_reviews")
    if reviews is None:
        return f"A new round would fix what ships now; it is not expected to prove {target}."
    return (
        f"A new round fixes what ships now: {count(reviews, 'reviews')} of it are expected to "
        f"prove {target}."
    )


def round_down(bound: float | None) -> float | None:
    """Return a lower bound rounded down to three decimals."""
    if bound is None:
        return None
    return math.floor(1000 * bound + _NEARLY) / 1000


def in_percent(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts about a claim with their shares as percentages; counts and texts stay."""
    return {
        name: percent(value) if isinstance(value, float) else value
        for name, value in numbers.items()
    }


def describe_word_errors(claim: Mapping[str, Any]) -> str:
    """Say how many words of what ships are wrong; empty if nothing was reviewed or no words ship.

    A claim of an earlier version has no word errors.
    """
    errors = claim.get("word_errors")
    if not errors or not claim["reviewed"] or errors["wer_high"] is None:
        return ""
    sentence = (
        f"Of the {errors['words']:,} words that ship, at most {_percent_up(errors['wer_high'])} "
        f"are wrong ({percent(claim['confidence'])} confidence)"
    )
    if errors["wer"] is not None:
        sentence += f"; estimate {percent(errors['wer'])}"
    number = errors["clips_without_corrected_text"]
    if not number:
        return f"{sentence}."
    verb = "counts" if number == 1 else "count"
    return (
        f"{sentence}. {count(number, 'wrong clips')} without a corrected text {verb} with all "
        "words: corrected texts lower the bound."
    )
