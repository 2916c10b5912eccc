// Threshold over a histogram. All counts are loaded at the start: moving it requests only examples
// from Python.

const WORST_SPEAKERS = 8;
const NAMED = 12;

function render(widget) {
  return mount(widget, "threshold-tuner", async ({ root, request, keys, bind, close, model }) => {
    let counts = null;
    let proof = null; // proven precision at every position
    let at = 0; // position on the grid
    let examples = null; // of this threshold; null while they are loading
    let chosen = -1;
    let wantedExample = null; // the example to play as soon as it is there
    let generation = 0; // counts moves of the threshold: responses to earlier ones are ignored
    let waiting = 0;
    let logarithmic = false;

    const columns = make("span", {
      class: "nba-group",
      role: "radiogroup",
      "aria-label": "column",
    });
    const others = make("select", {
      "aria-label": "other column",
      on: { change: () => choose(others.value) },
    });
    const label = button("", "keep what is at or above the threshold, or at or below it", () =>
      choose(counts.column, !counts.least),
    );
    const field = make("input", {
      type: "number",
      class: "nba-typed",
      "aria-label": "threshold",
      title: "type a threshold (key t)",
      step: "any",
      on: {
        change: () => put(Number(field.value)),
        keydown: (event) =>
          event.key === "Enter" && setTimeout(() => root.focus({ preventScroll: true })),
      },
    });
    const use = button(
      "use this threshold",
      "store it in the workspace: select uses it unless another is given",
      () => request("tuner.use", { value: counts.grid[at] }).then(showUsed),
    );
    const used = make("span", { class: "nba-faint nba-used", role: "status" });
    const log = button(
      "log scale",
      "logarithmic axis of segments (key y)",
      () => scaleBy(!logarithmic),
      "y",
    );
    const swatch = (kind, text) =>
      make("span", {}, make("i", { class: `nba-swatch nba-swatch-${kind}` }), text);
    const proven = [swatch("proof", "verified precision"), swatch("band", "its 95 % interval")];
    const always = [swatch("kept", "kept"), swatch("out", "out"), swatch("at", "threshold")];
    const legend = make("div", { class: "nba-legend nba-faint" }, ...always, ...proven);
    const help = make("div", { class: "nba-faint nba-help" });
    for (const [names, what] of [
      ["← →", "move, with Shift ten steps"],
      ["t", "type"],
      ["y", "log scale"],
      ["↑ ↓", "clips"],
      ["Space", "play"],
    ]) {
      help.append(
        make(
          "span",
          {},
          ...names.split(" ").map((name) => make("kbd", { text: name })),
          ` ${what}`,
        ),
      );
    }
    const canvas = make("canvas", {
      class: "nba-plot",
      role: "slider",
      tabindex: "0",
      "aria-label": "threshold",
      "aria-orientation": "horizontal",
    });
    const figures = ["threshold", "segments", "hours", "speakers gone", "verified precision"].map(
      (name) => {
        const parts = [
          make("div", { class: "nba-figure-value", text: "–" }),
          make("div", { class: "nba-faint nba-figure-more" }),
        ];
        const show = (...texts) => texts.forEach((text, i) => (parts[i].textContent = text));
        return {
          show,
          element: make(
            "div",
            { class: "nba-figure" },
            make("div", { class: "nba-faint", text: name }),
            ...parts,
          ),
        };
      },
    );
    const [threshold, segments, hours, speakersGone, precision] = figures;
    const losses = make("div", { class: "nba-losses" });
    const sides = ["kept", "out"].map((side) => {
      const list = make("div", { class: "nba-examples" });
      return {
        side,
        list,
        element: make(
          "div",
          { class: "nba-side" },
          make("div", { class: "nba-faint", text: `just ${side}` }),
          list,
        ),
      };
    });
    const listening = make("div", { class: "nba-listening", hidden: true });
    const plot = createPlot(canvas, root);
    root.append(
      make(
        "div",
        { class: "nba-bar" },
        columns,
        others,
        label,
        make("span", { class: "nba-space" }),
        log,
      ),
      canvas,
      legend,
      make(
        "div",
        { class: "nba-bar" },
        make("label", { class: "nba-faint" }, "threshold ", field),
        use,
        used,
      ),
      make("div", { class: "nba-figures" }, ...figures.map((figure) => figure.element)),
      losses,
      make("div", { class: "nba-sides" }, ...sides.map((side) => side.element)),
      listening,
      help,
    );
    const player = createPlayer(listening, { request, root });
    close(() => player.stop());

    async function open(column, value = null, least = null) {
      const { result, buffers } = await request("tuner.open", { column, value, least });
      counts = {
        ...result,
        column,
        kept: numbersOf(buffers[0], Uint32Array),
        time: numbersOf(buffers[1], Float32Array),
      };
      label.textContent = result.label;
      label.disabled = column === "similarity";
      proof = null;
      const mine = counts;
      request("tuner.evidence", { column, value, least }).then(({ result: evidence }) => {
        if (counts !== mine) return;
        proof = evidence;
        draw();
      });
      const [first, rest] = [true, false].map((common) =>
        result.columns.filter((name) => result.common.includes(name) === common),
      );
      columns.replaceChildren(
        ...first.map((name) => {
          const choice = button(name, `threshold on ${name}`, () => choose(name));
          return assign(choice, { role: "radio", "aria-checked": String(name === column) });
        }),
      );
      others.replaceChildren(
        make("option", { value: "", text: "other column", disabled: true }),
        ...rest.map((name) => make("option", { value: name, text: name })),
      );
      others.value = rest.includes(column) ? column : "";
      others.hidden = !rest.length;
    }

    const nearest = (value) =>
      counts.grid.reduce(
        (best, candidate, i) =>
          Math.abs(candidate - value) < Math.abs(counts.grid[best] - value) ? i : best,
        0,
      );

    async function choose(column, least = null) {
      const same = column === model.get("column");
      await open(
        column,
        same ? model.get("value") : null,
        same && least === null ? model.get("least") : least,
      );
      const value = same ? model.get("value") : counts.start;
      model.set("column", column);
      model.set("least", counts.least);
      move(nearest(value));
      showUsed();
      root.focus({ preventScroll: true });
    }

    /** Move to a value; Python counts anew if it is not a position of the grid. */
    async function put(value) {
      const inside = Math.min(counts.grid.at(-1), Math.max(counts.grid[0], value));
      if (Number.isNaN(inside)) return draw();
      if (!counts.grid.includes(inside)) await open(counts.column, inside, counts.least);
      return move(nearest(inside));
    }

    function showUsed() {
      const on = counts.column === "similarity";
      const value = model.get("used");
      use.disabled = !on;
      if (!on) {
        const condition = `${counts.quoted} ${counts.least ? ">=" : "<="} ${counts.grid[at]}`;
        used.textContent = `to apply it: select(workspace, where="${condition}")`;
      } else if (value === null) {
        used.textContent = "none is stored: select uses 0.80 unless another is given";
      } else {
        used.textContent = `stored: select uses ${digits(value)} unless another is given`;
      }
    }

    function scaleBy(on) {
      logarithmic = on;
      log.setAttribute("aria-pressed", on);
      drawPlot();
    }

    /** Format a threshold with two decimals, or as many as it has. */
    const digits = (value) =>
      Number(value.toFixed(2)) === value ? value.toFixed(2) : String(Number(value.toFixed(6)));

    /** Format a score with enough decimals to differ from the threshold and from 1. */
    function scored(value) {
      for (let many = counts.column === "duration_s" ? 2 : 3; many < 7; many += 1) {
        const shown = Number(value.toFixed(many));
        if (shown === value || (shown !== counts.grid[at] && shown !== 1))
          return value.toFixed(many);
      }
      return String(value);
    }

    const reportValue = debounce(() => {
      model.set("value", counts.grid[at]);
      model.save_changes();
      loadExamples();
    }, 120);

    function move(position) {
      at = Math.max(0, Math.min(counts.grid.length - 1, position));
      if (!waiting) waiting = requestAnimationFrame(() => ((waiting = 0), draw()));
      // Stop clips of the previous threshold.
      examples = wantedExample = null;
      chosen = -1;
      generation += 1;
      player.stop();
      listening.hidden = true;
      sides.forEach(({ element }) => element.classList.add("nba-coming"));
      reportValue();
    }

    async function loadExamples() {
      const mine = generation;
      const { result } = await request("tuner.examples", {
        column: counts.column,
        value: counts.grid[at],
        least: counts.least,
      });
      if (mine !== generation) return;
      examples = [...result.kept, ...result.out];
      for (const { side, list, element } of sides) {
        element.classList.remove("nba-coming");
        list.replaceChildren(
          ...result[side].map((example) => {
            const index = examples.indexOf(example);
            return make(
              "button",
              {
                type: "button",
                class: "nba-example",
                title: example.segment_id,
                on: { click: () => playExample(index) },
              },
              make("span", { class: "nba-score", text: scored(example.score) }),
              make("span", {
                class: "nba-isolate nba-example-text",
                dir: "auto",
                text: example.text || example.segment_id,
              }),
            );
          }),
        );
        if (!result[side].length)
          list.replaceChildren(make("span", { class: "nba-faint", text: `no segment is ${side}` }));
      }
      if (wantedExample !== null) playExample(wantedExample);
    }

    async function playExample(index) {
      if (!examples) {
        wantedExample = index;
        return;
      }
      if (!examples.length) return;
      const mine = generation;
      chosen = (index + examples.length) % examples.length;
      root
        .querySelectorAll(".nba-example")
        .forEach((element, i) => element.classList.toggle("nba-chosen", i === chosen));
      listening.hidden = false;
      await player.show(examples[chosen].number, { play: () => mine === generation });
      if (mine !== generation) return;
      player.prefetch(examples[(chosen + 1) % examples.length].number);
      root.focus({ preventScroll: true });
    }

    // drawing: all that a move changes, in one frame

    function draw() {
      const begun = performance.now();
      drawPlot();
      proven.forEach((element) => (element.hidden = !proof));
      const { grid, all_segments: total, all_hours: time } = counts;
      const share = (part, whole = 1) => `${((100 * part) / (whole || 1)).toFixed(1)} %`;
      if (document.activeElement !== field) field.value = digits(grid[at]);
      threshold.show(digits(grid[at]), counts.least ? "or more is kept" : "or less is kept");
      const without = counts.without_value ? `; ${counts.without_value}` : "";
      segments.show(
        number(counts.segments[at]),
        `${share(counts.segments[at], total)} of ${number(total)}${without}`,
      );
      hours.show(
        duration(counts.hours[at], time),
        `${share(counts.hours[at], time)} of ${duration(time)}`,
      );
      speakersGone.show(number(counts.vanished[at]), `of ${number(counts.all_speakers)}`);
      const isVerified = proof && proof.precision[at] !== null;
      if (isVerified)
        precision.show(
          share(proof.precision[at]),
          `${share(proof.low[at])} to ${share(proof.high[at])}, ${number(proof.reviewed[at])} reviewed`,
        );
      else precision.show("–", proof ? "none of it was reviewed" : "no verdicts yet");
      showUsed();
      drawLosses();
      const sentence = `${digits(grid[at])}: ${number(counts.segments[at])} segments kept`;
      assign(canvas, {
        "aria-valuemin": grid[0],
        "aria-valuemax": grid.at(-1),
        "aria-valuenow": grid[at],
        "aria-valuetext": sentence,
      });
      root.dataset.drawn = (performance.now() - begun).toFixed(2);
    }

    const drawPlot = () => plot.draw({ counts, at, proof, logarithmic });

    function drawLosses() {
      const width = counts.grid.length + 1; // the last of a row is all of it
      const lost = counts.speakers.map((name, i) => {
        const row = i * width;
        const amounts = counts.time[row + width - 1] ? counts.time : counts.kept;
        const share = 1 - amounts[row + at] / amounts[row + width - 1];
        return {
          name,
          share,
          hours: counts.time[row + width - 1] - counts.time[row + at],
          gone: !counts.kept[row + at],
        };
      });
      const vanished = lost.filter((speaker) => speaker.gone).map((speaker) => speaker.name);
      const worst = lost
        .filter((speaker) => !speaker.gone && speaker.share > 0)
        .sort((a, b) => b.share - a.share)
        .slice(0, WORST_SPEAKERS);
      const bar = ({ name, share, hours: time }) =>
        make(
          "div",
          { class: "nba-loss" },
          make("span", { class: "nba-isolate nba-loss-name", dir: "auto", text: name }),
          make(
            "span",
            { class: "nba-loss-bar" },
            make("span", { style: `width:${(100 * share).toFixed(1)}%` }),
          ),
          make("span", {
            class: "nba-faint",
            text: `−${(100 * share).toFixed(0)} %, ${duration(time)}`,
          }),
        );
      losses.replaceChildren(
        make("div", {
          class: "nba-faint",
          text: worst.length ? "speakers that lose most segments" : "no speaker loses segments",
        }),
        make("div", { class: "nba-loss-grid" }, ...worst.map(bar)),
      );
      if (vanished.length) {
        const more = counts.vanished[at] - Math.min(NAMED, vanished.length);
        const names = vanished
          .slice(0, NAMED)
          .map((name) =>
            make("span", { class: "nba-isolate nba-gone-name", dir: "auto", text: name }),
          );
        losses.append(
          make(
            "div",
            { class: "nba-vanished" },
            make("span", { text: "gone altogether: " }),
            ...names,
            more ? make("span", { text: `and ${number(more)} more` }) : "",
          ),
        );
      }
    }

    // mouse and keys

    const moveTo = (event) => move(nearest(plot.valueUnder(event)));
    onDrag(canvas, { onDown: moveTo, onMove: moveTo });
    const stepOf = (event) => (event.shiftKey ? 10 : 1);
    bind([
      [
        "← →",
        "move the threshold, with Shift ten steps",
        {
          ArrowLeft: (event) => move(at - stepOf(event)),
          ArrowRight: (event) => move(at + stepOf(event)),
        },
      ],
      [
        "Home End",
        "least, greatest threshold",
        { Home: () => move(0), End: () => move(counts.grid.length - 1) },
      ],
      ["t", "type the threshold", { t: () => field.select() }],
      ["y", "logarithmic axis", { y: () => scaleBy(!logarithmic) }],
      [
        "↑ ↓",
        "play the previous, next example",
        {
          ArrowUp: () => playExample(chosen < 0 ? -1 : chosen - 1),
          ArrowDown: () => playExample(chosen + 1),
          " ": () => (chosen < 0 ? playExample(0) : false),
        },
      ],
    ]);
    keys(
      (event) => chosen >= 0 && player.key(event),
      () => player.help.filter(([names]) => names !== "← →"),
    );
    // Values between two positions may come fast, as from a slider: they are counted once none
    // comes any more.
    const putLate = debounce(put, 120);
    model.on("change:value", () => {
      const value = model.get("value");
      if (!counts || value === counts.grid[at]) return;
      if (counts.grid.includes(value)) move(nearest(value));
      else putLate(value);
    });
    model.on("change:used", () => counts && showUsed());
    new ResizeObserver(() => counts && drawPlot()).observe(root);
    await choose(model.get("column"));
  });
}
