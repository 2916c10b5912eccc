// Player of one segment, with its bounds to move. Python reads the window, normalizes its loudness and computes what is drawn.

const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 2];
const CONTEXT_S = 2;
const MOST_CONTEXT_S = 30;
const NUDGE_MS = 20;
const CACHED_CLIPS = 6;
const PREFETCH_DELAY_MS = 30;

/**
 * Create a player in `host`. Returns `{ show, key, stop, toggle, prefetch }`; `show(number, { play })` shows a segment and its
 * words, and plays it if `play` is true or a function that returns true once the audio is there.
 */
function createPlayer(host, { request, root, onShown = () => {} }) {
  const settings = { before: 0, after: 0, channel: null, even: true };
  const clips = new Map(); // cache: key -> promise of a clip, oldest first
  let number = null;
  let ahead = null; // the segment to prefetch
  let clip = null;
  let facts = null;
  let speed = 1;
  let looping = false;
  let stopAt = null; // seconds of the clip
  let moved = { start: 0, end: 0 }; // ms by which the bounds are moved and not yet saved
  let frame = 0;
  let playRequests = 0; // number of the last play or stop: audio that arrives later is not played

  const title = make("div", { class: "nba-title" });
  const canvas = make("canvas", { class: "nba-canvas", role: "img" });
  const head = make("div", { class: "nba-playhead", hidden: true });
  const veils = ["before", "after"].map((side) => make("div", { class: `nba-veil nba-veil-${side}`, hidden: true }));
  const bounds = ["start", "end"].map((side) => make("div", { class: `nba-bound nba-bound-${side}`, title: `the segment's ${side}: drag to move it`, hidden: true }));
  const note = make("div", { class: "nba-note nba-faint", hidden: true });
  const stage = make("div", { class: "nba-stage" }, canvas, ...veils, ...bounds, head, note);
  const time = make("span", { class: "nba-time" });
  const playing = control("▶ play", "Space", "play or pause the clip with its context", () => toggle());
  const only = control("segment", "s", "play the segment without context", () => playSegment());
  const loop = control("loop", "l", "repeat the clip", () => setLoop(!looping));
  const slower = control("−", "", "slower (key -)", () => setSpeed(-1));
  const rate = make("span", { class: "nba-rate", text: "1×" });
  const faster = control("+", "", "faster (key +)", () => setSpeed(1));
  const context = control("context", "c", `${CONTEXT_S} s more context on both sides; with Shift none`, () => widen(CONTEXT_S, CONTEXT_S));
  const even = control("even volume", "v", "play all clips at equal loudness, or as recorded", () => change({ even: !settings.even }));
  const channel = control("channel: own", "h", "channel of the segment, mix, left or right", () => nextChannel());
  const keep = control("keep bounds", "k", "save the moved bounds in the log of corrections", () => keepBounds());
  const revert = control("as they were", "Esc", "undo the move", () => nudge(-moved.start, -moved.end));
  const shift = make("span", { class: "nba-shift" });
  const correcting = make("div", { class: "nba-bar nba-correcting", hidden: true }, shift, keep, revert);
  const words = make("div", { class: "nba-diff" });
  const diff = createDiff(words, { onSeek: (seconds) => clip && (seek(clip.start + seconds), play()) });
  host.append(
    title,
    stage,
    make("div", { class: "nba-bar nba-controls" }, playing, only, loop, make("span", { class: "nba-group" }, slower, rate, faster), context, even, channel, make("span", { class: "nba-space" }), time),
    correcting,
    words,
  );
  even.setAttribute("aria-pressed", "true");

  function control(label, key, hint, action) {
    const element = button(label, hint, () => {
      action();
      root.focus({ preventScroll: true });
    });
    if (key) element.append(make("kbd", { text: key }));
    return element;
  }

  // clips

  const columns = () => Math.max(200, Math.min(1000, Math.round(stage.clientWidth || 800)));
  const keyOf = (which) => JSON.stringify([which, settings, columns()]);

  function fetchClip(which) {
    const key = keyOf(which);
    if (!clips.has(key)) {
      clips.set(key, request("clip", { number: which, ...settings, columns: columns() }).then(({ result, buffers, later }) => prepare(result, buffers, later)));
      clips.get(key).catch(() => clips.delete(key));
      for (const [old, dropped] of clips) {
        if (clips.size <= CACHED_CLIPS) break;
        clips.delete(old);
        dropped.then((gone) => gone !== clip && release(gone), () => {});
      }
    }
    return clips.get(key);
  }

  function prepare(result, [peaks, bands], later) {
    if (result.note) return { note: result.note };
    const audio = make("audio", { preload: "auto", hidden: true });
    audio.addEventListener("playing", () => (root.dataset.playing = performance.now()));
    audio.addEventListener("ended", () => clip?.audio === audio && (looping ? again() : paused()));
    audio.addEventListener("pause", () => clip?.audio === audio && !audio.ended && paused());
    stage.append(audio);
    return {
      ...result, audio,
      peaks: new Int8Array(peaks.buffer, peaks.byteOffset, peaks.byteLength),
      bands: new Uint8Array(bands.buffer, bands.byteOffset, bands.byteLength),
      loaded: later.then(([wav]) => {
        if (!audio.isConnected) return;
        audio.src = URL.createObjectURL(new Blob([wav], { type: "audio/wav" }));
        audio.load();
      }),
    };
  }

  function release(gone) {
    if (!gone.audio) return;
    gone.audio.pause();
    gone.audio.remove();
    if (gone.audio.src) URL.revokeObjectURL(gone.audio.src);
  }

  /** Show a segment; its facts and words are requested in parallel with its audio. */
  async function show(which, { play: start = false } = {}) {
    number = which;
    stop();
    moved = { start: 0, end: 0 };
    const sounding = fetchClip(which); // first, since it takes longest
    const described = request("segment", { number: which }).then(({ result }) => {
      if (number !== which) return;
      facts = result;
      title.replaceChildren(
        make("code", { class: "nba-isolate", text: result.segment_id }),
        ...result.facts.map((fact) => make("span", { class: "nba-fact", dir: "auto", text: fact })),
      );
      diff.show(result.words, result.unshown);
      onShown(result);
      drawBounds();
    });
    const fetched = await sounding;
    if (number !== which) return;
    display(fetched);
    if (typeof start === "function" ? start() : start) play();
    await described;
  }

  function display(fetched) {
    clip = fetched;
    note.hidden = !fetched.note;
    note.textContent = fetched.note ?? "";
    draw();
    seek(Math.max(0, fetched.start ?? 0) && settings.before ? 0 : fetched.start ?? 0);
    context.setAttribute("aria-pressed", settings.before > 0 || settings.after > 0);
    root.dataset.shown = performance.now();
  }

  async function change(changes) {
    Object.assign(settings, changes);
    even.setAttribute("aria-pressed", settings.even);
    channel.firstChild.textContent = `channel: ${settings.channel ?? "own"}`;
    if (number === null) return;
    const which = number;
    const going = clip?.audio && !clip.audio.paused;
    const at = clip?.audio ? clip.audio.currentTime - clip.start : 0;
    stop();
    const fetched = await fetchClip(which);
    if (number !== which) return;
    display(fetched);
    if (!fetched.audio) return;
    seek(fetched.start + at);
    if (going) play();
    prefetch(ahead);
  }

  /** Prefetch a segment's audio, after the current segment has been painted. */
  function prefetch(which) {
    ahead = which;
    if (which !== null) setTimeout(() => ahead === which && fetchClip(which).catch(() => {}), PREFETCH_DELAY_MS);
  }

  const widen = (before, after) => change({ before: Math.min(MOST_CONTEXT_S, settings.before + before), after: Math.min(MOST_CONTEXT_S, settings.after + after) });

  function nextChannel() {
    const all = [null, "mix", "left", "right"];
    change({ channel: all[(all.indexOf(settings.channel) + 1) % all.length] });
  }

  // drawing

  function draw() {
    drawClip(canvas, clip, stage.clientWidth, { host, root });
    drawBounds();
  }

  // Start and end of the segment in the clip, with moved and saved bounds.
  const segmentStart = () => clip.start + ((facts?.correction?.start_ms ?? 0) + moved.start) / 1000;
  const segmentEnd = () => clip.end + ((facts?.correction?.end_ms ?? 0) + moved.end) / 1000;

  function drawBounds() {
    const whole = Boolean(clip?.audio);
    const places = whole ? [segmentStart() / clip.seconds, segmentEnd() / clip.seconds].map((share) => Math.min(1, Math.max(0, share))) : [0, 1];
    const inside = whole && (settings.before > 0 || settings.after > 0 || moved.start || moved.end || facts?.correction);
    bounds.forEach((bound, i) => {
      bound.hidden = !whole;
      bound.style.left = `${100 * places[i]}%`;
    });
    veils.forEach((veil) => (veil.hidden = !inside));
    veils[0].style.width = `${100 * places[0]}%`;
    veils[1].style.left = `${100 * places[1]}%`;
    const signed = (ms) => `${ms > 0 ? "+" : ms < 0 ? "−" : "±"}${Math.abs(ms / 1000).toFixed(2)} s`;
    correcting.hidden = !(moved.start || moved.end || facts?.correction);
    keep.hidden = revert.hidden = !(moved.start || moved.end);
    shift.textContent = moved.start || moved.end
      ? `bounds moved, not saved yet: start ${signed(moved.start)}, end ${signed(moved.end)}`
      : facts?.correction
        ? `bounds corrected by ${visible(facts.correction.reviewer)}: start ${signed(facts.correction.start_ms)}, end ${signed(facts.correction.end_ms)}`
        : "";
  }

  // playback

  function tick() {
    if (!clip?.audio) return;
    const now = clip.audio.currentTime;
    if (stopAt !== null && now >= stopAt) {
      if (looping) again();
      else clip.audio.pause();
    }
    head.hidden = false;
    head.style.left = `${(100 * Math.min(now, clip.seconds)) / clip.seconds}%`;
    time.textContent = `${clock(now - clip.start).replace("-", "−")} of ${clock(clip.end - clip.start)}`;
    diff.at(clip.audio.paused ? null : now - clip.start);
    if (!clip.audio.paused) frame = requestAnimationFrame(tick);
  }

  function play() {
    if (!clip?.audio) return;
    if (clip.audio.currentTime >= clip.seconds - 0.02) clip.audio.currentTime = 0;
    const { audio } = clip;
    playing.firstChild.textContent = "❚❚ pause";
    const mine = ++playRequests;
    clip.loaded
      .then(() => {
        if (mine !== playRequests) return undefined;
        audio.playbackRate = speed;
        audio.preservesPitch = true;
        const started = audio.play();
        cancelAnimationFrame(frame);
        frame = requestAnimationFrame(tick);
        return started;
      })
      .catch((error) => error.name === "AbortError" || (note.textContent = error.message));
  }

  function playSegment() {
    if (!clip?.audio) return;
    seek(segmentStart());
    stopAt = segmentEnd();
    play();
  }

  function again() {
    clip.audio.currentTime = stopAt === null ? 0 : Math.max(0, segmentStart());
    play();
  }

  function paused() {
    playing.firstChild.textContent = "▶ play";
    tick();
  }

  function stop() {
    playRequests += 1;
    stopAt = null;
    clip?.audio?.pause();
  }

  function toggle() {
    if (!clip?.audio) return;
    if (clip.audio.paused) {
      stopAt = null;
      play();
    } else clip.audio.pause();
  }

  function seek(seconds) {
    if (!clip?.audio) return;
    clip.audio.currentTime = Math.max(0, Math.min(clip.seconds, seconds));
    tick();
  }

  function setLoop(on) {
    looping = on;
    loop.setAttribute("aria-pressed", on);
  }

  function setSpeed(step) {
    speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(speed) + step))];
    rate.textContent = `${speed}×`;
    if (clip?.audio) clip.audio.playbackRate = speed;
  }

  // bounds

  function nudge(start, end) {
    if (!clip?.audio) return;
    moved = { start: moved.start + start, end: moved.end + end };
    drawBounds();
  }

  async function keepBounds() {
    if (!moved.start && !moved.end) return;
    const kept = facts?.correction ?? { start_ms: 0, end_ms: 0 };
    const { result } = await request("correct", { number, start_ms: kept.start_ms + moved.start, end_ms: kept.end_ms + moved.end });
    facts.correction = result;
    moved = { start: 0, end: 0 };
    drawBounds();
  }

  bounds.forEach((bound, i) => {
    bound.addEventListener("pointerdown", (event) => {
      event.stopPropagation();
      bound.setPointerCapture(event.pointerId);
      const ms = () => (clip.seconds * 1000) / stage.clientWidth;
      let last = event.clientX;
      const drag = (move) => {
        const by = Math.round((move.clientX - last) * ms());
        last = move.clientX;
        nudge(i === 0 ? by : 0, i === 1 ? by : 0);
      };
      bound.addEventListener("pointermove", drag);
      bound.addEventListener("pointerup", () => bound.removeEventListener("pointermove", drag), { once: true });
    });
  });
  stage.addEventListener("pointerdown", (event) => {
    if (!clip?.audio) return;
    stopAt = null;
    const box = stage.getBoundingClientRect();
    seek(((event.clientX - box.left) / box.width) * clip.seconds);
  });
  new ResizeObserver(() => draw()).observe(stage);

  const actions = {
    " ": () => toggle(),
    s: () => playSegment(),
    l: () => setLoop(!looping),
    "-": () => setSpeed(-1),
    "+": () => setSpeed(1),
    "=": () => setSpeed(1),
    c: () => widen(CONTEXT_S, CONTEXT_S),
    C: () => change({ before: 0, after: 0 }),
    b: () => widen(CONTEXT_S, 0),
    a: () => widen(0, CONTEXT_S),
    v: () => change({ even: !settings.even }),
    h: () => nextChannel(),
    ArrowLeft: () => clip?.audio && seek(clip.audio.currentTime - 1),
    ArrowRight: () => clip?.audio && seek(clip.audio.currentTime + 1),
    q: () => nudge(-NUDGE_MS, 0),
    w: () => nudge(NUDGE_MS, 0),
    o: () => nudge(0, -NUDGE_MS),
    p: () => nudge(0, NUDGE_MS),
    k: () => keepBounds(),
    Escape: () => nudge(-moved.start, -moved.end),
  };

  function key(event) {
    const action = actions[event.key];
    action?.();
    return Boolean(action);
  }

  return { show, key, stop, toggle, prefetch };
}
