// Range of bins, brushed by the pointer or moved by two handles with the keys of a slider.

const PAGE_BINS = 5;

/** Format a number of an axis. */
function axisNumber(value) {
  const digits = Math.abs(value) >= 100 ? 0 : 3;
  return (
    Math.abs(value) >= 1e7 ? value.toExponential(1) : number(Number(value.toFixed(digits)))
  ).replace("-", "−");
}

/**
 * Create two handles over `track`; `text(edge)` is the value at an edge; `onChange(first, last)`
 * gets the bins, both included, once the range rests, or at once by `flush()`. If the track is
 * `brushed`, a handle at its end bounds nothing: a drag from there is one over the track, which
 * chooses what it covers.
 */
function createRange(
  track,
  { label, vertical = false, brushed = false, text, onChange, onDraw = () => {} },
) {
  let bins = 1;
  let edges = [0, 1]; // the edges between which bins are chosen
  let moving = null; // the last move, until there is a response to it
  const handles = ["from", "to"].map((side) =>
    make("div", {
      class: `nba-handle nba-handle-${side}${vertical ? " nba-handle-up" : ""}`,
      role: "slider",
      tabindex: "0",
      "aria-label": `${label}, ${side}`,
      "aria-orientation": vertical ? "vertical" : "horizontal",
    }),
  );
  track.append(...handles);

  const report = debounce(async () => {
    const mine = moving;
    await onChange(edges[0], edges[1] - 1).catch(() => {});
    if (moving === mine) moving = null;
  }, 120);

  const isResting = (end) => brushed && edges[end] === (end ? bins : 0);

  function draw() {
    handles.forEach((handle, end) => {
      handle.classList.toggle("nba-resting", isResting(end));
      handle.style[vertical ? "bottom" : "left"] = `${(100 * edges[end]) / bins}%`;
      const [least, most] = end ? [1, bins] : [0, bins - 1];
      assign(handle, {
        "aria-valuemin": least,
        "aria-valuemax": most,
        "aria-valuenow": edges[end],
        "aria-valuetext": text(edges[end]),
      });
    });
    onDraw(edges);
  }

  /** Show another range, without a report. */
  function set(many, chosen) {
    if (moving && many === bins) return;
    bins = many;
    edges = chosen ? [chosen[0], chosen[1] + 1] : [0, bins];
    draw();
  }

  /** Choose what lies between two edges, and report it. */
  function show(from, to) {
    moving = {};
    const low = Math.max(0, Math.min(from, to, bins - 1));
    edges = [low, Math.min(bins, Math.max(from, to, low + 1))];
    draw();
    report();
  }

  /** Choose the bins that two places between edges are in, and all in between. */
  const stretch = (from, to) => show(Math.floor(Math.min(from, to)), Math.ceil(Math.max(from, to)));

  /** Return the place of the pointer between the edges, as a fraction. */
  function edgeAt(event) {
    const box = track.getBoundingClientRect();
    const share = vertical
      ? (box.bottom - event.clientY) / box.height
      : (event.clientX - box.left) / box.width;
    return Math.max(0, Math.min(1, share)) * bins;
  }

  /** Move one end, 0 or 1, to an edge that the other end does not reach. */
  function moveEnd(end, to) {
    if (end) show(edges[0], Math.max(to, edges[0] + 1));
    else show(Math.min(to, edges[1] - 1), edges[1]);
  }

  function key(event) {
    const end = handles.indexOf(event.target);
    const steps = {
      ArrowRight: 1,
      ArrowUp: 1,
      ArrowLeft: -1,
      ArrowDown: -1,
      PageUp: PAGE_BINS,
      PageDown: -PAGE_BINS,
      Home: -bins,
      End: bins,
    };
    if (end < 0 || !(event.key === "Escape" || event.key in steps)) return false;
    if (event.key === "Escape") show(0, bins);
    else moveEnd(end, edges[end] + steps[event.key]);
    return true;
  }

  handles.forEach((handle, end) =>
    onDrag(handle, {
      upright: vertical,
      onDown: () => !isResting(end),
      onMove: (event) => moveEnd(end, Math.round(edgeAt(event))),
      onUp: report.flush,
    }),
  );

  return { set, show, stretch, key, edgeAt, edges: () => edges, flush: report.flush };
}
