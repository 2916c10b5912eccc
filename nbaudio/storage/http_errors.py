"""What the errors of filesystems tell of the answers of their servers; each library has its own way."""

import re
from collections.abc import Mapping
from typing import Any


def http_status(error: BaseException) -> int | None:
    """The HTTP status that an error stands for, if any: aiohttp's ``status``, Azure's, Google's, Amazon's.

    Examples:
        >>> error = OSError("slow down")
        >>> error.__cause__ = type("ClientError", (Exception,), {"response": {"ResponseMetadata": {"HTTPStatusCode": 503}}})()
        >>> http_status(error), http_status(OSError("no route"))
        (503, None)
    """
    known = (getattr(error, name, None) for name in ("status", "status_code", "code"))
    found = next((each for each in known if isinstance(each, int)), None)
    return boto_metadata(error).get("HTTPStatusCode") if found is None else found


def boto_metadata(error: BaseException) -> Mapping[str, Any]:
    """What botocore keeps of an answer: ``HTTPStatusCode``, ``HTTPHeaders``; s3fs raises another error from its own."""
    for each in (error, error.__cause__):
        response = getattr(each, "response", None)
        if isinstance(response, Mapping) and isinstance(found := response.get("ResponseMetadata"), Mapping):
            return found
    return {}


def is_bad_redirect(error: BaseException) -> bool:
    """Whether an error of aiohttp means that redirects go in a circle, or to what is no web address."""
    return any(each.__name__ in ("TooManyRedirects", "RedirectClientError") for each in type(error).__mro__)


def one_line_error(error: BaseException) -> str:
    """An error in one line, without addresses, which may hold secrets.

    Examples:
        >>> one_line_error(OSError("cannot reach https://host/?key=secret"))
        'cannot reach ...'
    """
    if (status := http_status(error)) is not None:
        return f"the server says {status}"
    if isinstance(error, TimeoutError):  # whatever the library calls it
        return "nothing came in time"
    return re.sub(r"\S+://\S+", "...", " ".join(str(error).split())) or type(error).__name__
