// Words of a transcript above those of a hypothesis, pair by pair. Differences are marked by lines,
// not by color alone.

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
const TITLES = {
  equal: (pair) => pair.reference,
  replace: (pair) => `${pair.reference}, hypothesis: ${pair.hypothesis}`,
  delete: (pair) => `${pair.reference}, not in the hypothesis`,
  insert: (pair) => `only in the hypothesis: ${pair.hypothesis}`,
  formatting: (pair) => `formatting: ${pair.reference}, ${pair.hypothesis}`,
};

/** Return elements with the id and the facts of a segment. */
function factsOf({ segment_id: id, facts }) {
  return [
    make("code", { class: "nba-isolate", text: id }),
    ...facts.map((fact) => make("span", { class: "nba-fact", dir: "auto", text: fact })),
  ];
}

/** Direction of a text: that of its first letter. */
function directionOf(pairs) {
  const letter = pairs
    .map((pair) => pair.reference ?? pair.hypothesis ?? "")
    .join(" ")
    .match(/\p{L}/u);
  return letter && RIGHT_TO_LEFT.test(letter[0]) ? "rtl" : "ltr";
}

/**
 * Create the words in `host`; a click on a word with known time calls `onSeek(seconds)`. Returns `{
 * show, at }`.
 */
function createDiff(host, { onSeek = () => {} } = {}) {
  const words = make("div", { class: "nba-words" });
  const further = make("div", { class: "nba-lines" });
  const formatting = make("span", { class: "nba-formatting", text: "formatting" });
  const key = make(
    "div",
    { class: "nba-key nba-faint", hidden: true },
    make("del", { text: "only in the transcript" }),
    make("ins", { text: "only in the hypothesis" }),
    make("span", { class: "nba-other", text: "another word" }),
    formatting,
  );
  host.append(words, further, key);
  let spoken = []; // of each line, its words with their times and the function that highlights one

  /**
   * Show pairs of words; `unshown` is the number of characters cut off after them; `lines` are
   * those of further hypotheses.
   */
  function show(pairs, unshown = 0, lines = []) {
    spoken = [];
    const every = [pairs, ...lines.map(([, line]) => line)].flat();
    key.hidden = !every.some((pair) => pair.kind !== "equal");
    formatting.hidden = !every.some((pair) => pair.kind === "formatting");
    fill(words, pairs);
    if (unshown)
      words.append(
        make("span", {
          class: "nba-faint",
          dir: "ltr",
          text: ` … (${number(unshown)} more characters)`,
        }),
      );
    if (!pairs.length)
      words.replaceChildren(make("span", { class: "nba-faint", text: "no words" }));
    further.replaceChildren(
      ...lines.flatMap(([name, line]) => {
        const host = make("div", { class: "nba-words" });
        fill(host, line, true);
        return [make("code", { class: "nba-isolate nba-faint", text: name }), host];
      }),
    );
  }

  /** Fill an element with pairs of words; `single` shows the words of the hypothesis alone. */
  function fill(host, pairs, single = false) {
    const timed = [];
    host.dir = directionOf(pairs);
    const compared = single || pairs.some((pair) => pair.hypothesis !== null);
    host.replaceChildren(
      ...pairs.map((pair) => {
        const element = make("span", {
          class: `nba-pair nba-${pair.kind}`,
          title: TITLES[pair.kind](pair),
        });
        const over = make(pair.kind === "delete" ? "del" : "span", {
          class: "nba-word",
          dir: "auto",
          text: pair.reference ?? "",
        });
        if (!single) element.append(over);
        if (compared) {
          const tag = pair.kind === "insert" ? "ins" : "span";
          element.append(
            make(tag, {
              class: "nba-word nba-hypothesis",
              dir: "auto",
              text: pair.hypothesis ?? "",
            }),
          );
        }
        if (pair.start !== null) {
          element.classList.add("nba-timed");
          element.addEventListener("click", () => onSeek(pair.start));
          timed.push({ element, start: pair.start, end: pair.end });
        }
        return element;
      }),
    );
    spoken.push([createHighlight("nba-lit"), timed]);
  }

  return {
    show,
    at: (seconds) => spoken.forEach(([highlight, timed]) => highlight(timed, seconds)),
  };
}
