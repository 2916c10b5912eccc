"""The measure of contrast that the tests of pages and widgets use, on a page of known contrasts."""

import pytest
from browser import CHROMIUM, chromium
from contrast import faint_texts

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
FAINT = """<body style="background: white">
    <p style="color: #777">4.48 : 1</p>
    <p style="color: #767676">4.54 : 1</p>
    <p style="color: black; opacity: 0.5">3.95 : 1</p>
    <div style="background: rgb(0 0 0 / 50%)"><p style="color: white">3.95 : 1</p></div>
    <p style="color: color-mix(in srgb, white, #0072b2)">2.3 : 1</p>
    <details><p style="color: #999">2.85 : 1</p></details>
    <svg><text y="20" fill="#ddd">1.36 : 1</text></svg>
    <p style="color: #fff; display: none">not shown</p>
</body>"""


def test_contrast_is_measured_against_the_painted_background():
    with chromium() as (page, _):
        page.set_content(FAINT)
        faint = {text["text"]: round(text["contrast"], 1) for text in faint_texts(page)}
    assert faint.pop("2.3 : 1") == pytest.approx(2.3, abs=0.2)
    assert faint == {
        "4.48 : 1": 4.5,
        "3.95 : 1": 4.0,
        "2.85 : 1": 2.8,
        "1.36 : 1": 1.4,
    }
