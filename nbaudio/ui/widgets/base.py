"""What all live widgets share: one ESM file each, questions from the front end, a static form for saved pages.

The front end asks, Python answers: `{call, number, arguments}` comes, `{number, comm, result}` or `{number, comm, error}`
goes back, with buffers where there is sound or a picture; with `comm` the front end can ask whether the kernel still has the
widget. State is a few words; clips and rows are never part of it. An error is shown in the widget, since a notebook shows none
that is raised in a callback. Jupyter may deliver questions in several threads; they are answered one at a time.

The front end is written without a build step: the pieces of ``js`` that a widget names are put one behind the other.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import anywidget

from nbaudio.core.errors import NbaudioError

_HERE = Path(__file__).parent / "js"

# A server on the same machine waits up to 40 ms before it sends what is smaller than a packet there (Nagle's algorithm, while the
# browser delays its acknowledgement of the message before).
_PACKET_BYTES = 1 << 16

# Gives what JSON can carry, or that and the buffers behind it.
Handler = Callable[..., Any]


class Response(NamedTuple):
    """A result with buffers, and more of them that may come a moment later: a picture does not wait for its sound."""

    result: Any
    buffers: list[bytes]
    later: list[bytes]


def esm(*pieces: str) -> str:
    """The front end of a widget: the named files of ``js``, one behind the other; the last defines `render`.

    Examples:
        >>> "function render(" in esm("core", "table", "segment_table")
        True
    """
    text = "\n".join((_HERE / f"{piece}.js").read_text(encoding="utf8") for piece in pieces)
    return f"{text}\nexport default {{ render }};\n"


class BaseWidget(anywidget.AnyWidget):
    """A widget that answers questions; each kind names its front end as `_esm`, and gives `static_html`."""

    _css = (_HERE / "style.css").read_text(encoding="utf8")

    def __init__(self, calls: Mapping[str, Handler], **state: Any) -> None:
        super().__init__(**state)
        self._calls = calls
        self._lock = RLock()
        self.on_msg(self._answer)

    def static_html(self) -> str:
        """What a saved page shows, without a kernel."""
        raise NotImplementedError

    def _answer(self, _widget: object, message: dict[str, Any], _buffers: Sequence[bytes]) -> None:
        number = message.get("number")
        answered = {"number": number, "comm": self.model_id}
        try:
            with self._lock:
                result = self._calls[message["call"]](**message.get("arguments", {}))
        except NbaudioError as error:
            self.send({**answered, "error": str(error)})
        except Exception as error:  # noqa: BLE001 - a notebook shows no error that is raised here
            self.send({**answered, "error": f"{type(error).__name__}: {error}"})
        else:
            answer = result if isinstance(result, Response) else Response(result, [], [])
            padding = [bytes(_PACKET_BYTES)] if message.get("near") and not answer.buffers else []
            self.send({**answered, "result": answer.result, "more": bool(answer.later)}, answer.buffers or padding)
            if answer.later:
                self.send({"number": number, "later": True}, answer.later)

    def _repr_mimebundle_(self, **_options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_()  # type: ignore[misc]
        return {**data, "text/html": self.static_html()}, metadata

    def __repr__(self) -> str:
        return type(self).__name__
