// Plot of a threshold: a histogram with labeled axes, linear or logarithmic, and verified precision
// over it.

const TOP_PX = 20; // labels of the vertical axes
const PLOT_PX = 150;
const AXIS_PX = 34;
const SIDE_PX = 46; // tick labels of a vertical axis
const EDGE_PX = 14;

/**
 * Create the plot in a canvas. Returns `{ draw, valueUnder }`; `draw` takes `{ counts, at, proof,
 * logarithmic }`.
 */
function createPlot(canvas, root) {
  let [counts, at, proof, logarithmic] = [null, 0, null, false]; // what was drawn last
  // The axis begins where the data is, until the threshold is moved below: then it stays whole.
  let whole = false;

  const axisStart = () => (whole ? 0 : counts.axis.start);
  // Position of a value on the horizontal axis, from 0 to 1, and back.
  const shareOf = (value) =>
    (value - counts.grid[axisStart()]) / (counts.grid.at(-1) - counts.grid[axisStart()]);
  const valueAt = (share) =>
    counts.grid[axisStart()] + share * (counts.grid.at(-1) - counts.grid[axisStart()]);
  // Width of the plot and position of a value, in pixels.
  const plotWidth = () =>
    Math.max(60, (canvas.clientWidth || 600) - SIDE_PX - (proof ? SIDE_PX : EDGE_PX));
  const across = (value) => SIDE_PX + shareOf(value) * plotWidth();
  const shareUp = (share) => TOP_PX + (1 - share) * PLOT_PX;

  /** Draw verified precision over the histogram, with its interval, on the right axis. */
  function drawBand(pen, style) {
    const verified = proof.precision
      .map((_, i) => i)
      .filter((i) => i >= axisStart() && proof.precision[i] !== null);
    const x = (i) => across(counts.grid[i]);
    pen.fillStyle = pen.strokeStyle = style.getPropertyValue("--proof").trim();
    pen.globalAlpha = 0.22;
    pen.beginPath();
    verified.forEach((i) => pen.lineTo(x(i), shareUp(proof.high[i])));
    [...verified].reverse().forEach((i) => pen.lineTo(x(i), shareUp(proof.low[i])));
    pen.fill();
    pen.globalAlpha = 1;
    pen.lineWidth = 2;
    pen.beginPath();
    verified.forEach((i) => pen.lineTo(x(i), shareUp(proof.precision[i])));
    pen.stroke();
    pen.lineWidth = 1;
  }

  /** Ticks of an axis up to `most`: powers of ten, or a few equal steps. */
  function ticks(most) {
    if (logarithmic)
      return Array.from({ length: Math.floor(Math.log10(most)) + 1 }, (_, i) => 10 ** i);
    const rough = most / 3;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].find((candidate) => candidate * unit >= rough) * unit);
    return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
  }

  function draw(shown) {
    if (shown.counts !== counts) whole = false;
    ({ counts, at, proof, logarithmic } = shown);
    whole ||= at < counts.axis.start;
    canvas.dataset.axisStart = counts.grid[axisStart()];
    const width = canvas.clientWidth || 600;
    const foot = TOP_PX + PLOT_PX;
    const pen = resizeCanvas(canvas, width, foot + AXIS_PX);
    const style = getComputedStyle(root);
    const edges = counts.edges.filter((edge) => edge >= axisStart());
    const bars = edges.slice(1).map((end, k) => {
      let [numAll, numKept] = [0, 0];
      // The first bar holds all that is below the axis.
      for (let i = k ? edges[k] : 0; i < end; i += 1) {
        numAll += counts.bins[i];
        if (counts.least ? i >= at : i < at) numKept += counts.bins[i];
      }
      return { all: numAll, kept: numKept };
    });
    const most = Math.max(1, ...bars.map(({ all: numAll }) => numAll));
    // A single segment is visible on either scale.
    const half = Math.log10(0.5);
    const share = (many) => {
      if (!many) return 0;
      if (logarithmic) return (Math.log10(many) - half) / (Math.log10(most) - half);
      return Math.max(many / most, 1 / PLOT_PX);
    };
    const step = plotWidth() / bars.length;
    const hold = style.getPropertyValue("--hold").trim();
    bars.forEach(({ all: numAll, kept: numKept }, k) => {
      const x = SIDE_PX + k * step;
      const [whole, part] = [share(numAll) * PLOT_PX, share(numKept) * PLOT_PX];
      pen.strokeStyle = "#8a8a8a";
      if (numAll > numKept)
        pen.strokeRect(
          x + 0.5,
          foot - whole + 0.5,
          Math.max(0.5, step - 1),
          Math.max(0, whole - part - 0.5),
        );
      pen.fillStyle = hold;
      if (numKept) pen.fillRect(x + 0.3, foot - part, step - 0.6, part);
    });
    drawAxes(pen, style, { width, foot, most, share });
    if (proof) drawBand(pen, style);
    const x = across(counts.grid[at]);
    pen.fillStyle = style.getPropertyValue("--warn").trim();
    pen.fillRect(x - 1, TOP_PX, 2, PLOT_PX);
    pen.beginPath();
    pen.arc(x, TOP_PX + 1, 6, 0, 2 * Math.PI);
    pen.fill();
  }

  function drawAxes(pen, style, { width, foot, most, share }) {
    const right = SIDE_PX + plotWidth();
    const write = (text, x, y, side) => ((pen.textAlign = side), pen.fillText(text, x, y));
    const short = new Intl.NumberFormat("en-US", { notation: "compact" });
    pen.fillStyle = style.color;
    pen.globalAlpha = 0.75;
    pen.font = "11px sans-serif";
    pen.fillRect(SIDE_PX, foot, plotWidth(), 1);
    pen.fillRect(SIDE_PX - 1, TOP_PX, 1, PLOT_PX + 1);
    const parts = width < 420 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
    for (const part of parts) {
      pen.fillRect(SIDE_PX + part * plotWidth(), foot, 1, 4);
      write(
        String(Number(valueAt(part).toFixed(3))).replace("-", "−"),
        SIDE_PX + part * plotWidth(),
        foot + 16,
        "center",
      );
    }
    const label = whole ? counts.axis.whole_label : counts.axis.label;
    write(label.replace("\n", "; "), SIDE_PX + plotWidth() / 2, foot + 30, "center");
    write(logarithmic ? "segments (log)" : "segments", 2, 10, "left");
    for (const tick of ticks(most)) {
      pen.fillRect(SIDE_PX - 5, foot - share(tick) * PLOT_PX, 4, 1);
      write(short.format(tick), SIDE_PX - 8, foot - share(tick) * PLOT_PX + 4, "right");
    }
    if (proof) {
      write("verified precision", width - 2, 10, "right");
      pen.fillRect(right, TOP_PX, 1, PLOT_PX + 1);
      for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
        pen.fillRect(right, shareUp(tick), 4, 1);
        write(`${100 * tick} %`, right + 7, shareUp(tick) + 4, "left");
      }
    }
    pen.globalAlpha = 1;
  }

  /** Value under the pointer, which does not leave the axis while it drags. */
  function valueUnder(event) {
    const share = (event.clientX - canvas.getBoundingClientRect().left - SIDE_PX) / plotWidth();
    return valueAt(Math.max(0, Math.min(1, share)));
  }

  return { draw, valueUnder };
}
