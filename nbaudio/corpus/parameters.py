"""Parameters of a corpus: the defaults of `materialize`, and those that a new version takes over from its base."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from msgspec import UNSET

from nbaudio.audio import encoder
from nbaudio.core.channels import check_channel
from nbaudio.core.errors import InputError
from nbaudio.core.input_guards import parse_size
from nbaudio.corpus.base_version import Base
from nbaudio.corpus.plan import ClipFormat, ShardLimits

DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {"container": "webdataset", "text": None, "rate": 16000, "channel": "mix", "encoding": "flac"}
    | {"shard_size": "500MB", "shard_count": None, "window": 1}
)
"""The parameters of a corpus that is no version of another one."""


@dataclass(frozen=True)
class CorpusParameters:
    """Validated parameters of a corpus, as `materialize` describes them."""

    container: str
    text: str | None
    format: ClipFormat
    limits: ShardLimits

    @classmethod
    def of(cls, given: Mapping[str, Any], base: Base | None = None) -> "CorpusParameters":
        """Return parameters, those not given (`msgspec.UNSET`) as in `base` or `DEFAULTS`; raise InputError for invalid ones."""
        chosen = {name: value for name, value in given.items() if value is not UNSET}
        if "shard_size" in chosen:
            chosen["shard_size"] = parse_size(chosen["shard_size"])
        if "channel" in chosen:
            chosen["channel"] = str(chosen["channel"])
        held = DEFAULTS if base is None else {name: base.info["parameters"].get(name, DEFAULTS[name]) for name in DEFAULTS}
        for name, value in chosen.items() if base else ():
            if value != held[name]:
                raise InputError(f"{name} is {held[name]} in the base {base}, not {value}: leave it out, or leave out --base")
        values = {**held, **chosen}
        if (rate := values["rate"]) is not None and rate < 1:
            raise InputError(f"rate must be 1 Hz or more, not {rate}")
        encoder(values["encoding"]).check_rate(rate)
        check_channel(values["channel"])
        clip_format = ClipFormat(rate, values["channel"], values["encoding"])
        limits = ShardLimits(parse_size(values["shard_size"]), values["shard_count"], values["window"])
        return cls(values["container"], values["text"], clip_format, limits)

    def to_json(self) -> dict[str, Any]:
        """Return the parameters as corpus.json holds them."""
        found = {"container": self.container, **asdict(self.format), **asdict(self.limits)}
        return found | ({} if self.text is None else {"text": self.text})  # corpora of older versions have no such parameter
