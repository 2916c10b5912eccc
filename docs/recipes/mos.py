"""Perceived quality by DNSMOS, whose files are in the wheel of speechmos.

Install it by `pip install speechmos onnxruntime librosa`. speechmos has no `__version__`, so this
file states one.
"""

import numpy as np
from speechmos import dnsmos


def quality(samples):
    scores = [dnsmos.run(np.clip(clip, -1, 1), 16000) for clip in samples]
    return [{name.removesuffix("_mos"): score[name] for name in score} for score in scores]


quality.version = "speechmos 0.0.1.1"
quality.units = dict.fromkeys(("ovrl", "sig", "bak", "p808"), "MOS, 1 to 5")
