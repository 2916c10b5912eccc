"""Voice activity by Silero VAD, whose ONNX file is in the wheel of faster-whisper.

Install it by `pip install onnxruntime` and `pip install --no-deps faster-whisper==1.2.1`.
"""

from functools import cache
from importlib.util import find_spec

import numpy as np
import onnxruntime

HOP, CONTEXT = 512, 64  # samples at 16 kHz


@cache
def model():
    (folder,) = find_spec("faster_whisper").submodule_search_locations
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    path = f"{folder}/assets/silero_vad_v6.onnx"
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def probabilities(clip):
    hops = max(1, -(-len(clip) // HOP))
    padded = np.pad(clip, (CONTEXT, HOP * hops - len(clip)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, CONTEXT + HOP)[::HOP]
    state = np.zeros((1, 1, 128), np.float32)
    inputs = {"input": np.ascontiguousarray(windows), "h": state, "c": state}
    return model().run(None, inputs)[0].ravel()


def speech(samples):
    values = [probabilities(clip) for clip in samples]
    return [{"share": (value > 0.5).mean(), "most": value.max()} for value in values]


speech.units = {"share": "share of time", "most": "probability"}
