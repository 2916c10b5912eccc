// Time axis of a player: the part of a clip in view, its pictures, and the words on the waveform.
// Times are seconds from the segment's start as in the table, whatever context a clip has.

const BANDS = 128; // of a spectrogram, see clip_audio.py
const MOST_LANES = 8;
const SHORTEST_VIEW_S = 0.05;
const ZOOM = 1.6;
const SCROLL = 0.25; // share of the view
const PICTURE_DELAY_MS = 60;
const FLOORS_DB = [QUIETEST_DB, -90, -80, -70, -60, -50];
const TOPS_DB = [LOUDEST_DB, -35, -45];

/**
 * Create the canvas of a clip `{ from, to, whole, asked }`: `whole` holds its pictures by the
 * number of channels, `asked` names it in requests.
 */
function createTimeline(stage, { host, root, request, onDraw }) {
  const canvas = make("canvas", { class: "nba-canvas", role: "img" });
  const layer = make("div", { class: "nba-spoken", "aria-hidden": "true" });
  stage.append(canvas, layer);
  let clip = null;
  let facts = null; // sampling rate and channels
  let view = null; // what is in view; null for all
  let sharp = null; // picture of the view
  let spoken = [];
  const highlight = createHighlight("nba-mark-now");
  let separate = false; // a lane for each channel
  let floor = 0;
  let top = 0;

  const columns = () => Math.max(200, Math.min(1000, Math.round(stage.clientWidth || 800)));
  const inView = () => view ?? { from: clip.from, to: clip.to };
  const channels = () => Math.min(MOST_LANES, facts?.channels ?? 1);
  const lanes = () => (separate ? channels() : 1);
  const shareOf = (seconds) => (seconds - inView().from) / (inView().to - inView().from);
  const decibels = () => [FLOORS_DB[floor], TOPS_DB[top]];

  function draw() {
    if (!stage.clientWidth) return; // out of the page
    const empty = !clip?.whole;
    const shown = empty
      ? []
      : [clip.whole[lanes()] ?? clip.whole[1], view && sharp].filter((picture) => picture);
    const count = shown[0]?.lanes.length ?? 1;
    const pictures = shown.filter((picture) => picture.lanes.length === count);
    drawClip(
      canvas,
      {
        pictures,
        view: empty ? null : inView(),
        lanes: count,
        rate: facts?.rate,
        decibels: decibels(),
      },
      stage.clientWidth,
      { host, root },
    );
    layer.style.height = `${waveHeight(count)}px`;
    if (!empty) {
      const { from, to } = inView();
      const part = view ? `, from ${from.toFixed(2)} to ${to.toFixed(2)} seconds` : "";
      canvas.setAttribute(
        "aria-label",
        `waveform and spectrogram of ${(clip.to - clip.from).toFixed(1)} seconds${part}`,
      );
      placeWords();
    }
    layer.hidden = empty;
    onDraw();
  }

  /**
   * Request the pictures that are missing, then draw them; earlier pictures stay until the new
   * ones arrive.
   */
  async function load() {
    const [mine, wanted, { from, to }, zoomed] = [clip, lanes(), inView(), view];
    const fetchPart = (first, last) =>
      request("picture", {
        ...mine.asked,
        first: first - mine.from,
        last: last - mine.from,
        columns: columns(),
        lanes: wanted,
      }).then(({ buffers }) => pictureOf(buffers, first, last));
    mine.whole[wanted] ??= await fetchPart(mine.from, mine.to);
    const part = zoomed && (await fetchPart(from, to));
    if (clip !== mine) return;
    sharp = part;
    draw();
  }
  const loadSoon = debounce(
    () => clip?.whole && !clip.finest && (view || !clip.whole[lanes()]) && load().catch(() => {}),
    PICTURE_DELAY_MS,
  );

  /** Show a clip; the view stays if it is of the same segment. */
  function show(shown, { same = false } = {}) {
    clip = shown;
    sharp = null;
    if (!same || !clip?.whole) view = null;
    if (view) setView(view.from, view.to);
    else draw();
    loadSoon();
  }

  /** Take the facts and words of a segment; null while they are not there. */
  function describe(described) {
    const drawn = facts;
    facts = described ?? facts;
    spoken = (described?.words ?? [])
      .filter((pair) => pair.start !== null && pair.reference !== null)
      .map((pair) => {
        const element = make("span", { class: "nba-mark", dir: "auto" });
        return { element, text: visible(pair.reference), start: pair.start, end: pair.end };
      });
    layer.replaceChildren(...spoken.map(({ element }) => element));
    if (!described || !clip?.whole) return;
    if (drawn?.rate === facts.rate && drawn.channels === facts.channels) placeWords();
    else draw();
    loadSoon();
  }

  /** Place the words at their times, their letters only where they fit. */
  function placeWords() {
    const pen = canvas.getContext("2d");
    pen.font = "11px sans-serif";
    for (const word of spoken) {
      const [left, right] = [shareOf(word.start), shareOf(word.end)];
      const px = (right - left) * stage.clientWidth;
      word.element.hidden = right <= 0 || left >= 1 || px < 2;
      word.element.style.left = `${100 * left}%`;
      word.element.style.width = `${100 * (right - left)}%`;
      word.width ??= pen.measureText(word.text).width;
      word.element.textContent = px > word.width + 6 ? word.text : "";
    }
  }

  /**
   * Move the view, inside the clip; `keep` lets it be the whole clip, so that it stays when context
   * is added.
   */
  function setView(from, to, { keep = false } = {}) {
    const span = Math.max(SHORTEST_VIEW_S, to - from);
    const start = Math.max(clip.from, Math.min(from, clip.to - span));
    view =
      span >= clip.to - clip.from && !keep
        ? null
        : { from: start, to: Math.min(clip.to, start + span) };
    draw();
    loadSoon();
  }

  /** Zoom in by a factor; the time at `around`, a share of the view, stays where it is. */
  function zoom(factor, around) {
    if (!clip?.whole) return;
    const { from, to } = inView();
    const span = Math.max(SHORTEST_VIEW_S, (to - from) / factor);
    const fixed = from + around * (to - from);
    setView(fixed - around * span, fixed + (1 - around) * span);
  }

  /** Scroll by seconds; returns whether the view has moved. */
  function scroll(seconds) {
    if (!clip?.whole || !view) return false;
    const { from } = view;
    setView(from + seconds, view.to + seconds, { keep: true });
    return view.from !== from;
  }

  /** Turn the page if a time is not in view. */
  function follow(seconds) {
    if (!view || (seconds >= view.from && seconds <= view.to)) return;
    setView(seconds, seconds + view.to - view.from);
  }

  // As in Audacity: Ctrl with the wheel (also a pinch of a touchpad) zooms, Shift or a horizontal
  // wheel scrolls. A wheel alone is the page's.
  stage.addEventListener(
    "wheel",
    (event) => {
      if (!clip?.whole) return;
      const box = stage.getBoundingClientRect();
      const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.ctrlKey || event.metaKey)
        zoom(
          Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) / 100),
          (event.clientX - box.left) / box.width,
        );
      else if (view && (event.shiftKey || Math.abs(across) > Math.abs(event.deltaY)))
        scroll((across / box.width) * (view.to - view.from));
      else return;
      event.preventDefault();
    },
    { passive: false },
  );

  return {
    columns,
    show,
    describe,
    draw,
    zoom,
    scroll,
    follow,
    view: inView,
    shareOf,
    decibels,
    channels,
    fit: () => clip?.whole && setView(clip.from, clip.to),
    hold: () => setView(inView().from, inView().to, { keep: true }),
    at: (seconds) => highlight(spoken, seconds),
    zoomed: () => view !== null,
    page: (by) => view && scroll(by * SCROLL * (view.to - view.from)),
    timeAt: (x) => {
      const box = stage.getBoundingClientRect();
      return inView().from + ((x - box.left) / box.width) * (inView().to - inView().from);
    },
    nextFloor: () => ((floor = (floor + 1) % FLOORS_DB.length), draw()),
    nextTop: () => ((top = (top + 1) % TOPS_DB.length), draw()),
    separate: () => ((separate = !separate && channels() > 1), draw(), loadSoon(), separate),
  };
}

/** Return a picture of buffers with the peaks of each channel and the spectrogram. */
function pictureOf(buffers, from, to) {
  const lanes = buffers.slice(0, -1).map((buffer) => numbersOf(buffer, Int8Array));
  return { from, to, lanes, bands: numbersOf(buffers.at(-1), Uint8Array) };
}
