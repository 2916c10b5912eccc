"""Base of the live widgets.

Requests are `{call, number, arguments}`; replies are `{number, comm, result}` or `{..., error}`,
and buffers.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any, NamedTuple

import anywidget

from nbaudio.core.bundled_files import front_end
from nbaudio.core.errors import NbaudioError

# Padding: a server on the same machine delays messages smaller than a packet by up to 40 ms
# (Nagle's algorithm, delayed acks).
_PACKET_BYTES = 1 << 16

VIEW = "nba-view"  # class of several widgets in one cell, which have one "?" for all their keys

Handler = Callable[..., Any]  # returns a value for JSON, or a `Response`


class Response(NamedTuple):
    """The answer to a call, with buffers, and buffers that are sent after it.

    A picture comes with the answer and its audio later, so that it is drawn before the audio is
    there.
    """

    answer: Any
    buffers: list[bytes]
    later: list[bytes]


def esm(*names: str) -> str:
    """Concatenate files of ``js``, the only build step of the front end.

    ``player`` stands for several files, and the last file defines `render`.
    """
    return f"{front_end(*names)}\nexport default {{ render }};\n"


def handlers(owner: object, group: str, *names: str) -> dict[str, Handler]:
    """Return the handlers ``GROUP.NAME``, the methods `_NAME` of their owner."""
    return {f"{group}.{name}": getattr(owner, f"_{name}") for name in names}


class SavedHtml:
    """Mixin of widgets that show `static_html` in a saved page, without a kernel.

    By default they show nothing there.
    """

    def static_html(self) -> str:
        """Return the HTML."""
        return ""

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        # Anywidget's bundle comes with metadata.
        contents = bundle[0] if isinstance(bundle, tuple) else bundle
        contents["text/html"] = self.static_html()
        return bundle

    def __repr__(self) -> str:
        return type(self).__name__


class BaseWidget(SavedHtml, anywidget.AnyWidget):
    """Widget that answers requests with `calls`, handlers by name; subclasses set `_esm`."""

    _css = front_end("style", kind="css")

    def __init__(self, calls: Mapping[str, Handler], **state: Any) -> None:
        super().__init__(**state)
        self._calls = dict(calls)
        self._lock = RLock()  # Jupyter may deliver requests in several threads
        self.on_msg(self._answer)

    def _answer(self, _widget: object, message: dict[str, Any], _buffers: Sequence[bytes]) -> None:
        """Answer a request of the front end: its result, or the text of an error."""
        reply = {"number": message.get("number"), "comm": self.model_id}
        try:
            with self._lock:
                answer = self._calls[message["call"]](**message.get("arguments", {}))
        except NbaudioError as error:
            self.send({**reply, "error": str(error)})
        except Exception as error:  # noqa: BLE001 - a notebook shows no error that is raised here
            self.send({**reply, "error": f"{type(error).__name__}: {error}"})
        else:
            if isinstance(answer, Response):
                response = answer
            else:
                response = Response(answer, [], [])
            padding = []
            if message.get("near") and not response.buffers:
                padding = [bytes(_PACKET_BYTES)]
            self.send(
                {**reply, "result": response.answer, "more": bool(response.later)},
                response.buffers or padding,
            )
            if response.later:
                self.send({"number": reply["number"], "later": True}, response.later)

    def _repr_html_(self) -> str:
        return self.static_html()
