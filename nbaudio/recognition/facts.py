"""What reports and settings say about a recognizer and its speed."""

from nbaudio.core.dotted_names import parse_function
from nbaudio.recognition.recognizers import Function


def program_name(program: str | Function) -> str:
    """Return the name of a recognizer without folders of this machine.

    That of a command has no arguments, which may hold secrets.
    """
    if isinstance(program, str):
        function = parse_function(program)
        return function.dotted if function else program.split()[0]
    return getattr(program, "__name__", "")


def speed_facts(audio_seconds: float, seconds: float) -> dict[str, float]:
    """Return how much audio was recognized, in how long."""
    return {
        "hours": round(audio_seconds / 3600, 6),
        "seconds": round(seconds, 1),
        "times_real_time": round(audio_seconds / seconds, 1),
    }
