// The kernel of a review page: answers the panel's requests from the data in the page, and keeps
// verdicts in the browser's storage.

const FILE_FORMAT = "nbaudio verdicts 1";
const MOST_FILE_BYTES = 64 * 2 ** 20;
const CLIP_RATE = 16000;
const RECENT = 20; // verdicts that the rate is computed from
const BREAK_AFTER_MS = 45 * 60000; // of judging without a pause
const PAUSE_MS = 5 * 60000; // a longer time between two verdicts is a pause

/** Storage of this browser, or none: some give pages that were opened from a file no storage. */
function openStorage() {
  try {
    localStorage.setItem("nbaudio", "");
    localStorage.removeItem("nbaudio");
    return localStorage;
  } catch {
    return null;
  }
}

/** Return the bytes of the element of that name, once the page is loaded; null if there is none. */
async function embedded(name) {
  if (!document.getElementById(name) && document.readyState === "loading") {
    await new Promise((resolve) =>
      document.addEventListener("DOMContentLoaded", resolve, { once: true }),
    );
  }
  const text = document.getElementById(name)?.textContent;
  return text === undefined ? null : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Return peaks and spectrogram of a compressed picture, see review_page.py. */
async function unpack(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const unpacked = await new Response(stream).arrayBuffer();
  const [count] = new Uint32Array(unpacked, 0, 1);
  return [new Int8Array(unpacked, 4, 2 * count), new Uint8Array(unpacked, 4 + 2 * count)];
}

/** Parse JSON; null if it is none. */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * Create the kernel; `onChange` is called after each change; `model` is what `mount` needs of a
 * widget's model.
 */
function createKernel(round, { onChange }) {
  const storage = openStorage();
  const { clips } = round;
  const words = round.words.map(([word]) => word);
  const state = { stored: storage !== null, reviewer: "", last: "", unsaved: 0 }; // `last` is the last reviewer in this browser
  const verdictOf = new Map(); // by number: { verdict, comment, corrected_text, time }
  let done = []; // of this session: { number, before, at }
  let order = clips.map((_, i) => i);
  const listeners = new Set();

  const keyOf = (what) => `nbaudio ${round.fingerprint} ${state.reviewer} ${what}`;

  function store(what, value) {
    try {
      if (value === null) storage?.removeItem(keyOf(what));
      else storage?.setItem(keyOf(what), JSON.stringify(value));
    } catch {
      state.stored = false; // it is full
    }
  }

  const load = (what) => parse(storage?.getItem(keyOf(what)) ?? null);

  function put(which, verdict, changes = 1) {
    if (verdict) verdictOf.set(which, verdict);
    else verdictOf.delete(which);
    store(which, verdict ?? null);
    setUnsaved(state.unsaved + changes);
  }

  function setUnsaved(count) {
    state.unsaved = count;
    store("unsaved", count);
    onChange();
  }

  /** Continue as a reviewer, with what this browser has of them. */
  function switchTo(reviewer) {
    if (round.reviewer && reviewer !== round.reviewer)
      throw new Error(`these are the clips of ${round.reviewer}: open your own page`);
    if (!reviewer) throw new Error("reviewer: a name is needed");
    state.reviewer = "";
    store("reviewer", reviewer);
    state.reviewer = reviewer;
    state.unsaved = Number(load("unsaved")) || 0;
    verdictOf.clear();
    done = [];
    clips.forEach((_, i) => {
      const storedVerdict = load(i);
      // Other pages may write into the same storage.
      if (typeof storedVerdict?.verdict === "string" && isKnown(storedVerdict.verdict))
        verdictOf.set(i, storedVerdict);
    });
    onChange();
  }

  /** Return the milliseconds of judging up to the last verdict since the last pause. */
  function workedMs() {
    const times = done.map(({ at }) => at);
    const begin = times.findLastIndex((at, i) => i === 0 || at - times[i - 1] > PAUSE_MS);
    return begin < 0 ? 0 : times.at(-1) - times[begin];
  }

  /** Return what a reviewer is to do beside judging; empty for nothing. */
  function advice() {
    if (verdictOf.size === clips.length)
      return "all judged: save the verdicts and send the file back";
    const worked = workedMs();
    if (worked < BREAK_AFTER_MS) return "";
    return `You have judged for ${Math.floor(worked / 60000)} minutes without a pause. Take a break: tired reviewers miss faults.`;
  }

  function progress() {
    const latest = new Map(done.slice(-RECENT).map(({ number: which, at }) => [which, at])); // a clip counts once
    const times = [...latest.values()].sort((a, b) => a - b);
    const pace = times.length > 1 ? (times.length - 1) / ((times.at(-1) - times[0]) / 1000) : null;
    return {
      done: verdictOf.size,
      total: clips.length,
      undo: done.length > 0,
      reviewer: state.reviewer,
      next: advice(),
      per_hour: pace && 3600 * pace,
      left_s: pace && (clips.length - verdictOf.size) / pace,
    };
  }

  /**
   * Return the next position after one, from the start again, whose clip has no verdict; null if
   * there is none.
   */
  function nextOpen(position) {
    const open = order.flatMap((which, place) => (verdictOf.has(which) ? [] : [place]));
    return open.find((place) => place > position) ?? open[0] ?? null;
  }

  const isKnown = (verdict) => verdict.split(", ").every((word) => words.includes(word));

  /** Return the corrected text of a segment, null if it is the transcript. */
  function correction(which, corrected) {
    return corrected?.trim() && corrected.trim().normalize() !== clips[which].text.trim()
      ? corrected
      : null;
  }

  async function clip({ number: which }) {
    const [picture, sound] = await Promise.all(
      ["picture", "sound"].map((kind) => embedded(`${kind}-${which}`)),
    );
    if (!picture) return { note: round.silent };
    const { seconds, file } = clips[which];
    const url = file ?? URL.createObjectURL(new Blob([sound], { type: round.media }));
    return { seconds, start: 0, end: seconds, url, finest: true, buffers: await unpack(picture) };
  }

  const rowOf = (which) => {
    const { text, facts } = clips[which];
    return {
      clip: which + 1,
      verdict: verdictOf.get(which)?.verdict ?? "",
      text,
      facts: facts.slice(0, 2).join(" · "),
    };
  };
  const size = () => ({ total: order.length, all: clips.length, version: 0 });

  const handlers = {
    "review.open": () => ({
      words: round.words.map(([word, meaning]) => ({ word, meaning })),
      page: true,
      fixed: Boolean(round.reviewer),
      ...progress(),
    }),
    "review.said": ({ number: which }) => ({
      said: verdictOf.get(which) ?? null,
      text: clips[which].text,
    }),
    "review.next": ({ position }) => {
      const place = nextOpen(position);
      return place === null ? null : { position: place, number: order[place] };
    },
    "review.give": ({ number: which, verdict, comment, corrected_text: corrected }) => {
      const entry = verdict && {
        verdict,
        comment,
        corrected_text: correction(which, corrected),
        time: new Date().toISOString(),
      };
      done.push({ number: which, before: verdictOf.get(which), at: performance.now() });
      put(which, entry);
      return progress();
    },
    "review.undo": () => {
      const last = done.pop();
      if (!last) return { ...progress(), number: null, position: null };
      put(last.number, last.before && { ...last.before, time: new Date().toISOString() });
      const place = order.indexOf(last.number);
      return { ...progress(), number: last.number, position: place < 0 ? null : place };
    },
    "review.switch": ({ reviewer }) => {
      switchTo(reviewer.trim());
      return progress();
    },
    "table.columns": () => {
      const names = ["clip", "text", "verdict", "facts"];
      const shown = names.filter((name) => name !== "verdict" || verdictOf.size);
      const columns = names.map((name) => ({ name, kind: name === "clip" ? "integer" : "text" }));
      return {
        columns,
        shown,
        widths: {},
        wrap: false,
        charts: false,
        stacked: false,
        fitted: true,
        hypothesis: null,
        characters: {},
      };
    },
    "table.open": () => {
      const all = { where: "", find: "", sort: "", descending: false };
      handlers["table.arrange"](all);
      return { ...handlers["table.columns"](), order: all, cursor: nextOpen(-1) ?? 0, ...size() };
    },
    "table.arrange": ({ find, sort, descending }) => {
      const wanted = find.toLowerCase();
      const holds = ({ segment_id: id, text, facts }, i) =>
        [id, text, ...facts, verdictOf.get(i)?.verdict ?? ""].some((part) =>
          part.toLowerCase().includes(wanted),
        );
      order = clips.flatMap((clip, i) => (holds(clip, i) ? [i] : []));
      if (sort)
        order.sort(
          (a, b) =>
            (descending ? -1 : 1) *
            String(rowOf(a)[sort]).localeCompare(rowOf(b)[sort], undefined, { numeric: true }),
        );
      return size();
    },
    "table.rows": ({ first, last, columns }) => ({
      rows: order.slice(first, last).map((which) => ({
        number: which,
        marked: false,
        cells: columns.map((name) => rowOf(which)[name]),
      })),
      version: 0,
    }),
    "table.cell": ({ number: which, column }) => rowOf(which)[column],
    "table.cursor": () => null,
    "table.layout": () => ({}),
    segment: ({ number: which }) => ({
      ...clips[which],
      channels: 1,
      rate: CLIP_RATE,
      correction: null,
      words: clips[which].words.map(([kind, reference, hypothesis, start, end]) => ({
        kind,
        reference,
        hypothesis,
        start,
        end,
      })),
    }),
    clip,
  };

  async function answer({ call, number: request, arguments: values }) {
    const send = (message, buffers) =>
      listeners.forEach((listener) =>
        listener({ number: request, comm: "page", ...message }, buffers),
      );
    try {
      const result = await handlers[call](values);
      send({ result, more: true }, result?.buffers ?? []);
      send({ later: true }, []);
    } catch (error) {
      send({ error: error.message }, []);
    }
  }

  /** Return the text of the verdict file, with all clips, judged or not. */
  function verdictFile() {
    const verdicts = clips.map(({ segment_id, content }, i) => {
      const {
        verdict = "",
        comment = "",
        corrected_text: corrected = "",
        time = "",
      } = verdictOf.get(i) ?? {};
      return { segment_id, content, verdict, comment, corrected_text: corrected ?? "", time };
    });
    const facts = {
      format: FILE_FORMAT,
      review: round.review,
      corpus: round.corpus,
      reviewer: state.reviewer,
      saved: new Date().toISOString(),
    };
    return `${JSON.stringify({ ...facts, verdicts }, null, 1)}\n`;
  }

  /** Take the verdicts of a file that are newer than those here; return how many. */
  function takeFile(text) {
    const file = parse(text);
    const { format, review, corpus, verdicts } = file ?? {};
    if (
      format !== FILE_FORMAT ||
      review !== round.review ||
      corpus !== round.corpus ||
      !Array.isArray(verdicts)
    )
      throw new Error("not a verdict file of this page");
    if (file.reviewer !== state.reviewer)
      throw new Error(`its verdicts are those of ${file.reviewer}, not of ${state.reviewer}`);
    const numbers = new Map(clips.map(({ content, segment_id: id }, i) => [`${content} ${id}`, i]));
    let taken = 0;
    for (const saved of verdicts) {
      const which = numbers.get(`${saved?.content} ${saved?.segment_id}`);
      const fields = ["verdict", "comment", "corrected_text", "time"].map((name) => saved?.[name]);
      if (
        which === undefined ||
        !fields.every((value) => typeof value === "string") ||
        !isKnown(saved.verdict)
      )
        continue;
      const [verdict, comment, corrected, time] = fields;
      if ((verdictOf.get(which)?.time ?? "") >= time) continue;
      put(which, { verdict, comment, corrected_text: correction(which, corrected), time }, 0);
      taken += 1;
    }
    return taken;
  }

  const last = load("reviewer");
  if (typeof last === "string") state.last = last;
  const model = {
    local: true,
    on: (event, listener) => event === "msg:custom" && listeners.add(listener),
    off: (_, listener) => listeners.delete(listener),
    send: answer,
  };
  return {
    model,
    state,
    switchTo,
    verdictFile,
    takeFile,
    markSaved: () => setUnsaved(0),
    judged: () => verdictOf.size,
  };
}
