// On the waveform of a player: the segment's bounds to move, and a region to repeat.
// `state` is that of the player: `{ number, clip, facts, moved, region }`; times are seconds from
// the segment's start.

const NUDGE_MS = 20;

/**
 * Create the bounds of a segment; `extend(side)` adds context where a bound is moved out of the
 * clip.
 */
function createBounds(stage, { state, timeline, request, extend, control }) {
  const veils = ["before", "after"].map((side) =>
    make("div", { class: `nba-veil nba-veil-${side}`, hidden: true }),
  );
  const bounds = ["start", "end"].map((side) =>
    make("div", {
      class: `nba-bound nba-bound-${side}`,
      title: `the segment's ${side}: drag to move it`,
      hidden: true,
    }),
  );
  const keep = control("keep bounds", "k", "save the moved bounds in the log of corrections", () =>
    keepBounds(),
  );
  const revert = control("as they were", "Esc", "undo the move", () => release());
  const undo = control(
    "undo",
    "K",
    "withdraw the saved bounds; those saved before them count again",
    () => undoKept(),
  );
  const shift = make("span", { class: "nba-shift" });
  const bar = make(
    "div",
    { class: "nba-bar nba-correcting", hidden: true },
    shift,
    keep,
    revert,
    undo,
  );
  stage.append(...veils, ...bounds);

  const correction = () => state.facts?.correction ?? { start_ms: 0, end_ms: 0 };
  const start = () => (correction().start_ms + state.moved.start) / 1000;
  const end = () => state.clip.length + (correction().end_ms + state.moved.end) / 1000;
  const isMoved = () => Boolean(state.moved.start || state.moved.end);

  function draw() {
    const whole = Boolean(state.clip?.audio);
    const isCorrected = Boolean(state.facts?.correction);
    const places = whole ? [start(), end()].map(timeline.shareOf) : [0, 1];
    const inside =
      whole &&
      (state.clip.from < 0 || state.clip.to > state.clip.length || isMoved() || isCorrected);
    bounds.forEach((bound, i) => {
      // Of a zoomed clip a bound may be out of view; else it is always shown.
      bound.hidden = !whole || (timeline.zoomed() && (places[i] < 0 || places[i] > 1));
      bound.style.left = `${100 * Math.min(1, Math.max(0, places[i]))}%`;
    });
    veils.forEach((veil) => (veil.hidden = !inside));
    veils[0].style.width = `${100 * Math.min(1, Math.max(0, places[0]))}%`;
    veils[1].style.left = `${100 * Math.min(1, Math.max(0, places[1]))}%`;
    const signed = (ms) =>
      `${ms > 0 ? "+" : ms < 0 ? "−" : "±"}${Math.abs(ms / 1000).toFixed(2)} s`;
    bar.hidden = !isMoved() && !isCorrected;
    keep.hidden = revert.hidden = !isMoved();
    undo.hidden = isMoved();
    const { reviewer, start_ms: startMs, end_ms: endMs } = correction();
    if (isMoved())
      shift.textContent = `bounds moved, not saved yet: start ${signed(state.moved.start)}, end ${signed(state.moved.end)}`;
    else if (isCorrected)
      shift.textContent = `bounds corrected by ${visible(reviewer)}: start ${signed(startMs)}, end ${signed(endMs)}`;
  }

  function nudge(startMs, endMs) {
    if (!state.clip?.audio) return;
    state.moved = { start: state.moved.start + startMs, end: state.moved.end + endMs };
    if (startMs < 0 && start() < state.clip.from) extend("before");
    if (endMs > 0 && end() > state.clip.to) extend("after");
    draw();
  }

  function release() {
    state.moved = { start: 0, end: 0 };
    draw();
  }

  async function save(call, values) {
    const { number } = state;
    const { result } = await request(call, { number, ...values });
    if (state.number !== number) return;
    state.facts.correction = result;
    release();
  }

  async function keepBounds() {
    if (!isMoved()) return;
    const saved = correction();
    await save("correct", {
      start_ms: saved.start_ms + state.moved.start,
      end_ms: saved.end_ms + state.moved.end,
    });
  }

  async function undoKept() {
    if (state.facts?.correction && !isMoved()) await save("undo_correction", {});
  }

  ["start", "end"].forEach((side, i) => {
    let x = 0;
    let offset = 0; // from the pointer to the bound, in seconds
    let frame = 0;

    function place() {
      const { from, to } = timeline.view();
      const now = Math.max(from, Math.min(to, timeline.timeAt(x) + offset));
      const was = i ? end() : start();
      state.moved[side] += Math.round(
        1000 * ((i ? Math.max(now, start() + 0.01) : Math.min(now, end() - 0.01)) - was),
      );
      draw();
    }

    /**
     * While the pointer is beyond the waveform, scroll there, and fetch context where the clip
     * ends.
     */
    function push() {
      const box = stage.getBoundingClientRect();
      const beyond = x <= box.left ? x - box.left - 1 : x >= box.right - 1 ? x - box.right + 2 : 0;
      if (beyond) {
        const { from, to } = timeline.view();
        const step = Math.sign(beyond) * Math.min(20, 1 + Math.abs(beyond) / 15);
        if (timeline.scroll((step / box.width) * (to - from))) place();
        else extend(beyond < 0 ? "before" : "after");
      }
      frame = requestAnimationFrame(push);
    }

    onDrag(bounds[i], {
      onDown(event) {
        x = event.clientX;
        offset = (i ? end() : start()) - timeline.timeAt(x);
      },
      onMove(next) {
        x = next.clientX;
        place();
        if (!frame) push();
      },
      onUp() {
        cancelAnimationFrame(frame);
        frame = 0;
      },
    });
  });

  return { bar, draw, start, end, nudge, isMoved, release, keep: keepBounds, undo: undoKept };
}

/**
 * Create the region of a player, drawn by dragging on the waveform; a click there calls
 * `onClick(seconds)`.
 */
function createRegion(stage, { state, timeline, onClick, onChange }) {
  const box = make("div", { class: "nba-region", hidden: true });
  stage.append(box);

  function draw() {
    const { region } = state;
    box.hidden = !region || !state.clip?.audio;
    if (box.hidden) return;
    const [left, right] = [region.start, region.end].map(timeline.shareOf);
    box.style.left = `${100 * left}%`;
    box.style.width = `${100 * (right - left)}%`;
  }

  /** Put the region between two times; null removes it. */
  function put(start, end) {
    const { from, to } = state.clip ?? {};
    state.region =
      start === null
        ? null
        : { start: Math.max(from, Math.min(start, end)), end: Math.min(to, Math.max(start, end)) };
    draw();
    onChange();
  }

  let begun = 0;
  onDrag(stage, {
    onDown: (event) => Boolean(state.clip?.audio) && (begun = timeline.timeAt(event.clientX)),
    onMove: (event) => put(begun, timeline.timeAt(event.clientX)),
    onUp: (moved) => !moved && onClick(begun),
  });

  /**
   * Move a side of the region to a time; the other side is that of the clip unless there is a
   * region.
   */
  function set(side, seconds) {
    const { from, to } = state.clip;
    const { start, end } = state.region ?? { start: from, end: to };
    if (side === "start") put(seconds, seconds < end ? end : to);
    else put(start < seconds ? start : from, seconds);
  }

  return { draw, set, clear: () => put(null) };
}
