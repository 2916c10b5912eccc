"""Files of a dataset, on this machine or remote, and how many of their bytes were read."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from nbaudio.core import input_guards
from nbaudio.core.errors import AudioError, InputError
from nbaudio.storage.location import Location, LocationLike, location
from nbaudio.storage.network import convert_error
from nbaudio.storage.urls import is_url
from nbaudio.tables.parquet_ranges import RangedParquet


@dataclass
class ReadTotals:
    """Bytes and requests so far; threads may add to them."""

    num_bytes: int = 0
    requests: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, num_bytes: int) -> None:
        """Count a request."""
        with self._lock:
            self.num_bytes += num_bytes
            self.requests += 1


@dataclass(frozen=True)
class DatasetFiles:
    """The files of a dataset by their paths in its folder.

    Attributes:
        place: the folder, or of a single file the folder that holds it.
        names: paths of the files, in order.
        totals: what was read of them.
    """

    place: Location
    names: Sequence[str]
    totals: ReadTotals = field(default_factory=ReadTotals)
    _places: dict[str, Location] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def at(cls, target: LocationLike) -> "DatasetFiles":
        """List a folder or file, at a path or URL; raise InputError if there is none."""
        is_path = isinstance(target, str | Path) and not is_url(str(target))
        place = location(Path(str(target)).absolute() if is_path else target)
        with convert_error(AudioError, InputError):
            if not place.is_folder():
                try:
                    place.status()
                except OSError as error:
                    raise InputError(f"{target}: {error.strerror or error}") from error
                return cls(place.parent, (place.name,))
            listing = place.listing(lambda _: True)
        if listing is None:
            raise InputError(f"{target}: the server does not list this folder; name a file")
        return cls(place, [*listing[0]])

    def ending(self, *endings: str) -> list[str]:
        """Return the files whose names have one of some endings."""
        return [name for name in self.names if name.lower().endswith(endings)]

    def _place(self, name: str) -> Location:
        """Return the location of a file, with the connections of earlier reads."""
        if name not in self._places:
            self._places[name] = self.place / name
        return self._places[name]

    def size(self, name: str) -> int:
        """Return the bytes of a file; raise InputError if that is unknown."""
        with convert_error(AudioError, InputError):
            return self._place(name).status().num_bytes

    def read(self, name: str, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop) of a file; raise InputError if they cannot be read."""
        with convert_error(AudioError, InputError):
            content = self._place(name).read(start, stop)
        self.totals.add(len(content))
        return content

    def whole(self, name: str) -> bytes:
        """Return a small file; raise InputError if it is larger than texts may be."""
        size = self.size(name)
        if size > input_guards.MAX_TEXT_BYTES:
            raise InputError(f"{name}: larger than {input_guards.MAX_TEXT_BYTES >> 20} MB")
        return self.read(name, 0, size) if size else b""

    def parquet(self, name: str) -> RangedParquet:
        """Open a Parquet file; raise InputError if it is none."""
        return RangedParquet.open(name, partial(self.read, name), self.size(name))
