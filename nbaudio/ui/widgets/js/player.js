// Player of one segment. Python reads the window, normalizes its loudness and computes what is
// drawn.

const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 2];
const CONTEXT_S = 2;
const MOST_CONTEXT_S = 30;
const PREFETCH_DELAY_MS = 30;
const END_S = 0.02; // as near to an end counts as being there

/**
 * Create a player in `host`; `fixed` clips, of a corpus or a page, have no context, other channels
 * or bounds to move; `levels`: volume can be leveled.
 */
function createPlayer(host, { request, root, onShown = () => {}, fixed = false, levels = true }) {
  const settings = { before: 0, after: 0, channel: null, even: !fixed };
  const none = { before: 0, after: 0 };
  const extra = { ...none }; // context in which a bound is moved: seconds that are shown, not played
  const state = {
    number: null,
    clip: null,
    facts: null,
    moved: { start: 0, end: 0 },
    region: null,
  };
  let ahead = null; // the segment to prefetch
  let speed = 1;
  let looping = false;
  let range = null; // what is being played, if not the whole clip
  let last = 0; // seconds at the last frame
  let frame = 0;
  let playRequests = 0; // number of the last play or stop: audio that arrives later is not played
  let extending = false;

  const title = make("div", { class: "nba-title" });
  const head = make("div", { class: "nba-playhead", hidden: true });
  const note = make("div", { class: "nba-note nba-faint", hidden: true });
  const stage = make("div", { class: "nba-stage" });
  const timeline = createTimeline(stage, { host, root, request, onDraw: () => drawMarks() });
  const region = createRegion(stage, {
    state,
    timeline,
    onClick: (seconds) => jump(seconds),
    onChange: () => onRegion(),
  });
  const bounds = createBounds(stage, { state, timeline, request, extend, control });
  const clips = createClips(stage, {
    state,
    root,
    request,
    timeline,
    onLimit: () => limit(),
    onEnd: () => (looping ? again() : paused()),
    onPause: () => paused(),
  });
  stage.append(head, note);
  const time = make("span", { class: "nba-time" });
  const playing = control(
    "▶ play",
    "Space",
    `play or pause the clip${fixed ? "" : " with its context"}`,
    () => toggle(),
  );
  const only = control("segment", "s", "play the segment without context", () => playSegment());
  const loop = control("loop", "l", "repeat the region, or the clip", () => setLoop(!looping));
  const slower = control("−", "", "slower (key -)", () => setSpeed(-1));
  const rate = make("span", { class: "nba-rate", text: "1×" });
  const faster = control("+", "", "faster (key +)", () => setSpeed(1));
  const context = control(
    "context",
    "c",
    `${CONTEXT_S} s more context on both sides; with Shift none`,
    () => widen(CONTEXT_S, CONTEXT_S),
  );
  const even = control("even volume", "v", "play all clips at equal loudness, or as recorded", () =>
    change({ even: !settings.even }),
  );
  const channel = control("channel: own", "h", "channel of the segment, mix, left or right", () =>
    nextChannel(),
  );
  const apart = control("channels apart", "m", "a waveform for each channel", () => separate());
  const zoomOut = control("−", "", "zoom out (key Z)", () => zoom(1 / ZOOM));
  const fit = control("zoom", "f", "the whole clip", () => timeline.fit());
  const zoomIn = control("+", "", "zoom in (key z; the wheel with Ctrl)", () => zoom(ZOOM));
  const level = control("dB", "d", "least level of the spectrogram; D: greatest", () =>
    setLevels(timeline.nextFloor),
  );
  const words = make("div", { class: "nba-diff" });
  const diff = createDiff(words, { onSeek: (seconds) => state.clip && (jump(seconds), play()) });
  const group = (...children) => make("span", { class: "nba-group" }, ...children);
  const zooming = group(zoomOut, fit, zoomIn);
  const bar = make(
    "div",
    { class: "nba-bar nba-controls" },
    playing,
    only,
    loop,
    group(slower, rate, faster),
    context,
    even,
    channel,
    apart,
    zooming,
    level,
    time,
  );
  host.append(title, stage, bar, bounds.bar, words);
  even.setAttribute("aria-pressed", settings.even);
  apart.hidden = true;
  for (const element of [only, context, channel]) element.hidden = fixed;
  even.hidden = !levels;
  setLevels();

  function control(label, key, hint, action) {
    const act = () => {
      action();
      root.focus({ preventScroll: true });
    };
    return button(label, hint, act, key);
  }

  function fetchClip(which) {
    const wider = (side) =>
      Math.min(MOST_CONTEXT_S, settings[side] + (which === state.number ? extra[side] : 0));
    return clips.fetch({
      number: which,
      ...settings,
      before: wider("before"),
      after: wider("after"),
    });
  }

  /**
   * Show a segment and its words; play it if `play` is true, or a function that returns true once
   * the audio is there.
   */
  async function show(which, { play: start = false } = {}) {
    stop();
    Object.assign(state, { number: which, facts: null, moved: { start: 0, end: 0 } });
    Object.assign(extra, none);
    if (state.region) region.clear();
    const sounding = fetchClip(which); // first, since it takes longest
    const described = request("segment", { number: which }).then(({ result }) => {
      if (state.number !== which) return;
      state.facts = result;
      title.replaceChildren(...factsOf(result));
      diff.show(result.words, result.unshown, result.lines);
      timeline.describe(result);
      apart.hidden = timeline.channels() < 2;
      onShown(result);
      drawMarks();
    });
    timeline.describe(null);
    const fetched = await sounding;
    if (state.number !== which) return;
    display(fetched);
    if (typeof start === "function" ? start() : start) play();
    await described;
    // Fetch the context that a corrected segment lies in, so that its bounds are in the clip.
    const { start_ms: startMs = 0, end_ms: endMs = 0 } = state.facts?.correction ?? {};
    if (startMs >= 0 && endMs <= 0) return;
    Object.assign(extra, {
      before: startMs < 0 ? 1 - startMs / 1000 : 0,
      after: endMs > 0 ? 1 + endMs / 1000 : 0,
    });
    await change({});
  }

  function display(fetched, { same = false } = {}) {
    state.clip = fetched;
    note.hidden = !fetched.note;
    note.textContent = fetched.note ?? "";
    timeline.show(fetched, { same });
    seek(settings.before ? fetched.from : 0);
    context.setAttribute("aria-pressed", settings.before > 0 || settings.after > 0);
    root.dataset.shown = performance.now();
  }

  async function change(changes) {
    Object.assign(settings, changes);
    even.setAttribute("aria-pressed", settings.even);
    channel.firstChild.textContent = `channel: ${settings.channel ?? "own"}`;
    if (state.number === null) return;
    const which = state.number;
    const going = state.clip?.audio && !state.clip.audio.paused;
    const [at, playedRange] = [state.clip?.audio ? now() : 0, range];
    stop();
    const fetched = await fetchClip(which);
    if (state.number !== which) return;
    display(fetched, { same: true });
    if (!fetched.audio) return;
    seek(at);
    range = playedRange ?? segmentRange();
    if (going) play();
    prefetch(ahead);
  }

  /** Prefetch a segment's audio, after the current segment has been painted. */
  function prefetch(which) {
    ahead = which;
    if (which !== null)
      setTimeout(() => ahead === which && fetchClip(which).catch(() => {}), PREFETCH_DELAY_MS);
  }

  const widen = (before, after) =>
    change({
      before: Math.min(MOST_CONTEXT_S, settings.before + before),
      after: Math.min(MOST_CONTEXT_S, settings.after + after),
    });

  /** Fetch context on a side, for this segment alone, unless the recording begins or ends there. */
  async function extend(side) {
    const { asked, from, to, length } = state.clip;
    const contextShown = side === "before" ? -from : to - length;
    if (extending || asked[side] >= MOST_CONTEXT_S || contextShown < asked[side] - END_S) return;
    extending = true;
    extra[side] += CONTEXT_S;
    timeline.hold();
    try {
      await change({});
    } finally {
      extending = false;
    }
  }

  function nextChannel() {
    const all = [null, "mix", "left", "right"];
    change({ channel: all[(all.indexOf(settings.channel) + 1) % all.length] });
  }

  const separate = () => apart.setAttribute("aria-pressed", timeline.separate());

  function setLevels(next = () => {}) {
    next();
    level.firstChild.textContent =
      timeline
        .decibels()
        .map((decibels) => String(decibels).replace("-", "−"))
        .join(" to ") + " dB";
  }

  /** Zoom around the playhead if it is in view, else around the middle. */
  function zoom(factor) {
    if (!state.clip?.audio) return;
    const share = timeline.shareOf(now());
    timeline.zoom(factor, share >= 0 && share <= 1 ? share : 0.5);
  }

  function drawMarks() {
    if (!fixed) bounds.draw();
    region.draw();
    drawHead();
  }

  function drawHead() {
    const share = state.clip?.audio ? timeline.shareOf(Math.min(now(), state.clip.to)) : -1;
    head.hidden = share < 0 || share > 1;
    head.style.left = `${100 * share}%`;
  }

  const now = () => state.clip.audio.currentTime + state.clip.from;

  /** Stop, or begin again, where the range ends that is being played. */
  function limit() {
    const seconds = now();
    const over = range && last < range.end && seconds >= range.end;
    last = seconds;
    if (!over) return;
    if (looping) again();
    else {
      state.clip.audio.pause();
      seek(range.end);
    }
  }

  function tick() {
    if (!state.clip?.audio) return;
    const { audio, length } = state.clip;
    if (!audio.paused) {
      limit();
      timeline.follow(now());
    }
    drawHead();
    time.textContent = `${clock(now())} of ${clock(length)}`;
    const spoken = audio.paused ? null : now();
    diff.at(spoken);
    timeline.at(spoken);
    cancelAnimationFrame(frame);
    if (!audio.paused) frame = requestAnimationFrame(tick);
  }

  async function play() {
    if (!state.clip?.audio) return;
    const { audio, from, to, loaded } = state.clip;
    if (now() >= (range?.end ?? to) - END_S) seek(range?.start ?? from);
    const mine = ++playRequests;
    try {
      await loaded;
      if (mine !== playRequests) return;
      Object.assign(audio, { playbackRate: speed, preservesPitch: true });
      const started = audio.play();
      playing.firstChild.textContent = "❚❚ pause";
      tick();
      await started;
    } catch (error) {
      if (error.name !== "AbortError") note.textContent = error.message;
    }
  }

  function playSegment() {
    if (!state.clip?.audio || fixed) return;
    range = { start: Math.max(state.clip.from, bounds.start()), end: bounds.end() };
    seek(range.start);
    play();
  }

  function again() {
    seek(range?.start ?? state.clip.from);
    play();
  }

  function paused() {
    if (state.clip?.audio && !state.clip.audio.paused && !state.clip.audio.ended) return; // begun again since
    playing.firstChild.textContent = "▶ play";
    tick();
  }

  function stop() {
    playRequests += 1;
    range = null;
    state.clip?.audio?.pause();
    paused(); // the event comes too late if the next clip is there
  }

  /** The segment with the context that is wanted, if the clip has more than that; else null. */
  function segmentRange() {
    return extra.before || extra.after
      ? { start: bounds.start() - settings.before, end: bounds.end() + settings.after }
      : null;
  }

  function toggle() {
    if (!state.clip?.audio) return;
    if (!state.clip.audio.paused) return state.clip.audio.pause();
    const { region: marked } = state;
    range = marked ?? segmentRange();
    if (marked && (now() < marked.start || now() > marked.end)) seek(marked.start);
    else if (range && now() > range.end + END_S) range = null; // placed in the context behind it
    return play();
  }

  function seek(seconds) {
    if (!state.clip?.audio) return;
    state.clip.audio.currentTime = Math.max(0, Math.min(state.clip.to, seconds) - state.clip.from);
    last = now();
    tick();
  }

  /** Go to a time by hand; outside the region it ends the region. */
  function jump(seconds) {
    if (state.region && (seconds < state.region.start || seconds > state.region.end))
      region.clear();
    range = state.region;
    seek(seconds);
  }

  /** Repeat the region from now on, if there is one. */
  function onRegion() {
    range = state.region;
    setLoop(Boolean(range));
  }

  function setLoop(on) {
    looping = on;
    loop.setAttribute("aria-pressed", on);
  }

  function setSpeed(step) {
    speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(speed) + step))];
    rate.textContent = `${speed}×`;
    if (state.clip?.audio) state.clip.audio.playbackRate = speed;
  }

  // Colors are those of the theme. A notebook takes cells out of the page and puts them back: then
  // the size changes.
  const theme = new MutationObserver(() =>
    stage.isConnected ? requestAnimationFrame(timeline.draw) : theme.disconnect(),
  );
  new ResizeObserver(() => {
    theme.observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
    timeline.draw();
  }).observe(stage);

  const sounding = (action) => () => state.clip?.audio && action();
  const listening = [
    ["Space", "play or pause", { " ": toggle }],
    ["l", "repeat the region, or the clip", { l: () => setLoop(!looping) }],
    [
      "- +",
      "slower, faster",
      { "-": () => setSpeed(-1), "+": () => setSpeed(1), "=": () => setSpeed(1) },
    ],
    [
      "← →",
      "a second back, ahead",
      { ArrowLeft: sounding(() => jump(now() - 1)), ArrowRight: sounding(() => jump(now() + 1)) },
    ],
    ...(levels
      ? [["v", "equal loudness, or as recorded", { v: () => change({ even: !settings.even }) }]]
      : []),
    [
      "z Z f",
      "zoom in, out, whole clip (Ctrl and the wheel)",
      { z: () => zoom(ZOOM), Z: () => zoom(1 / ZOOM), f: timeline.fit },
    ],
    [
      ", .",
      "scroll (Shift and the wheel)",
      { ",": () => timeline.page(-1), ".": () => timeline.page(1) },
    ],
    [
      "[ ]",
      "region from here, to here; or drag on the waveform",
      {
        "[": sounding(() => region.set("start", now())),
        "]": sounding(() => region.set("end", now())),
      },
    ],
    [
      "d D",
      "least, greatest level of the spectrogram",
      { d: () => setLevels(timeline.nextFloor), D: () => setLevels(timeline.nextTop) },
    ],
    [
      "Esc",
      "remove the region, then undo the move of bounds",
      { Escape: () => (state.region ? region.clear() : bounds.release()) },
    ],
  ];
  // Not for fixed clips.
  const moving = [
    ["s", "play the segment without context", { s: playSegment }],
    [
      "c b a C",
      "more context on both sides, in front, behind; none",
      {
        c: () => widen(CONTEXT_S, CONTEXT_S),
        b: () => widen(CONTEXT_S, 0),
        a: () => widen(0, CONTEXT_S),
        C: () => (Object.assign(extra, none), change(none)),
      },
    ],
    ["h", "channel: the segment's own, mix, left, right", { h: nextChannel }],
    ["m", "a waveform for each channel", { m: separate }],
    [
      "q w",
      "move the start of the segment back, ahead",
      { q: () => bounds.nudge(-NUDGE_MS, 0), w: () => bounds.nudge(NUDGE_MS, 0) },
    ],
    [
      "o p",
      "move the end of the segment back, ahead",
      { o: () => bounds.nudge(0, -NUDGE_MS), p: () => bounds.nudge(0, NUDGE_MS) },
    ],
    ["k K", "save the moved bounds; undo that", { k: bounds.keep, K: bounds.undo }],
  ];

  return {
    show,
    ...bindKeys(fixed ? listening : [...listening, ...moving]),
    stop,
    toggle,
    prefetch,
  };
}
