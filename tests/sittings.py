"""Sittings of known truth: what was typed, spoken and heard, in made-up words."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Sitting:
    """What was spoken and heard, in order, and the lines of the transcript, some of which nobody
    spoke."""

    words: list[str]  # that were spoken
    times: np.ndarray  # n x 2 seconds
    sentence: np.ndarray  # of each word
    heard: list[str]
    heard_times: np.ndarray
    lines: list[str] = field(default_factory=list)  # the transcript: sentences as typed
    # The sentence of each line, -1 if it was not spoken.
    numbers: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The transcript, one sentence a line."""
        return "\n".join(self.lines)

    def whisper(self) -> dict[str, object]:
        """The hypothesis in the shape of Whisper's JSON."""
        words = zip(self.heard, self.heard_times.tolist(), strict=True)
        return {
            "segments": [
                {
                    "words": [
                        {"word": f" {word}", "start": start, "end": end}
                        for word, (start, end) in words
                    ]
                }
            ]
        }

    def ctm(self, name: str) -> str:
        """The hypothesis as CTM."""
        words = zip(self.heard, self.heard_times.tolist(), strict=True)
        return "".join(
            f"{name} 1 {start:.3f} {end - start:.3f} {word}\n" for word, (start, end) in words
        )


def lexicon(rng: np.random.Generator, size: int = 4000) -> tuple[list[str], np.ndarray]:
    """Words of random syllables, short ones first, and frequencies as in a language."""
    syllables = [first + second for first in "bdgklmnprstvzčš" for second in "aeiou"]
    words: dict[str, None] = dict.fromkeys("aiou")
    while len(words) < size:
        count = 1 + int(rng.integers(0, 1 + min(4, len(words) // 20 + 1)))
        words["".join(rng.choice(syllables, count))] = None
    frequency = 1 / (np.arange(size) + 4)
    return list(words), frequency / frequency.sum()


def make_sitting(
    seed: int,
    sentences: int = 150,
    *,
    not_typed: float = 0.1,
    not_spoken: float = 0.05,
    moves: int = 0,
    errors: float = 0.08,
    pauses: bool = True,
) -> Sitting:
    """Make up a sitting; `errors` is the share of words that the recognizer misses, misspells,
    doubles or joins with the next."""
    rng = np.random.default_rng(seed)
    words, frequency = lexicon(rng)

    def sentence() -> list[str]:
        return [
            words[number]
            for number in rng.choice(len(words), int(rng.integers(4, 25)), p=frequency)
        ]

    spoken = [sentence() for _ in range(sentences)]
    said, sizes = [word for one in spoken for word in one], [len(one) for one in spoken]
    times, now = [], 0.5
    for one in spoken:
        for word in one:
            end = now + 0.08 + 0.05 * len(word)
            times.append((round(now, 2), round(end, 2)))
            now = end + (0.3 if pauses and rng.random() < 0.05 else 0)
        now += float(rng.uniform(0.1, 1.2)) if pauses and rng.random() < 0.7 else 0
    heard, heard_times = [], []
    skip = False
    for number, word in enumerate(said):
        if skip or rng.random() >= errors:
            if not skip:
                heard.append(word), heard_times.append(times[number])
            skip = False
            continue
        kind = rng.integers(0, 4)
        if kind == 0 and len(word) > 2:
            place = int(rng.integers(0, len(word)))
            heard.append(word[:place] + "x" + word[place + 1 :]), heard_times.append(times[number])
        elif kind == 1:
            middle = round(sum(times[number]) / 2, 2)
            heard += [word, word[:2]]
            heard_times += [(times[number][0], middle), (middle, times[number][1])]
        elif kind == 2 and number + 1 < len(said):
            (
                heard.append(word + said[number + 1]),
                heard_times.append((times[number][0], times[number + 1][1])),
            )
            skip = True
    kept = [number for number in range(sentences) if rng.random() >= not_typed]
    for _ in range(moves):
        size = min(8, len(kept) // 4)
        start = int(rng.integers(0, len(kept) - size))
        block, rest = kept[start : start + size], kept[:start] + kept[start + size :]
        place = int(rng.integers(0, len(rest)))
        kept = rest[:place] + block + rest[place:]
    typed = [(spoken[number], number) for number in kept]
    for _ in range(round(sentences * not_spoken)):
        typed.insert(int(rng.integers(0, len(typed) + 1)), (sentence(), -1))
    return Sitting(
        said,
        np.array(times),
        np.repeat(np.arange(sentences), sizes),
        heard,
        np.array(heard_times),
        [" ".join(one).capitalize() + "." for one, _ in typed],
        [number for _, number in typed],
    )
