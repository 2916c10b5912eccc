"""Contrast of every visible text of a page with what is painted behind it."""

from typing import Any

from playwright.sync_api import Page

LEAST = 4.5  # WCAG 2.2, level AA, for text of any size

# Each text node that one can see, with its contrast. Grounds and opacities are blended from the
# root of the page down; a canvas as large as a pixel turns any notation of CSS into numbers.
_CONTRASTS = """(within) => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const brush = canvas.getContext("2d", { willReadFrequently: true });
    const known = new Map();
    const read = (color) => {
        if (!known.has(color)) {
            brush.clearRect(0, 0, 1, 1);
            brush.fillStyle = color;
            brush.fillRect(0, 0, 1, 1);
            const [red, green, blue, alpha] = brush.getImageData(0, 0, 1, 1).data;
            known.set(color, { levels: [red, green, blue], alpha: alpha / 255 });
        }
        return known.get(color);
    };
    const blend = (top, alpha, ground) =>
        top.map((level, i) => level * alpha + ground[i] * (1 - alpha));
    const luminance = (levels) => {
        const [red, green, blue] = levels.map((level) => {
            const share = level / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
    };
    const ancestors = (element) => {
        const line = [];
        for (let one = element; one; one = one.parentElement) line.unshift(one);
        return line;
    };
    const isSvgText = (element) => element instanceof SVGElement;
    const contrast = (element) => {
        let ground = read("Canvas").levels;
        let opacity = 1;
        for (const one of ancestors(element)) {
            const style = getComputedStyle(one);
            opacity *= Number(style.opacity);
            const own = read(style.backgroundColor);
            ground = blend(own.levels, own.alpha * opacity, ground);
        }
        const style = getComputedStyle(element);
        const color = read(isSvgText(element) ? style.fill : style.color);
        const painted = luminance(blend(color.levels, color.alpha * opacity, ground));
        const behind = luminance(ground);
        return Math.max(painted, behind) / Math.min(painted, behind);
    };
    const texts = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const element = node.parentElement;
        if (!node.data.trim() || element.closest("script, style, title, option")) continue;
        if (!element.closest(within)) continue;
        if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
        texts.push({
            text: node.data.trim().slice(0, 40),
            where: `${element.tagName} ${element.getAttribute("class") ?? ""}`,
            contrast: contrast(element),
        });
    }
    return texts;
}"""
_UNFOLD = "() => document.querySelectorAll('details').forEach((part) => { part.open = true; })"


def faint_texts(page: Page, within: str = "body") -> list[dict[str, Any]]:
    """Return the texts of a page, also those in folded parts, whose contrast is below 4.5:1.

    `within` selects the elements whose texts are looked at.

    Raises:
        ValueError: If the page shows no text there.
    """
    page.evaluate(_UNFOLD)
    texts: list[dict[str, Any]] = page.evaluate(_CONTRASTS, within)
    if not texts:
        raise ValueError("the page shows no text")
    return [text for text in texts if text["contrast"] < LEAST]
