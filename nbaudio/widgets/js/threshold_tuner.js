// A threshold over a histogram. All counts are here from the beginning: a move of it asks Python for nothing but examples.

const PLOT_PX = 150;
const AXIS_PX = 20;
const WORST_SPEAKERS = 8;
const NAMED = 12;

function render(widget) {
  return mount(widget, "threshold-tuner", async ({ root, ask, keys, close, model }) => {
    let counts = null;
    let proof = null; // what verdicts prove at every position
    let at = 0; // position on the grid
    let examples = [];
    let chosen = -1;
    let waiting = 0;

    const measures = make("span", { class: "nba-group", role: "radiogroup", "aria-label": "measure" });
    const label = make("span", { class: "nba-faint" });
    const canvas = make("canvas", { class: "nba-plot", role: "slider", tabindex: "0", "aria-orientation": "horizontal" });
    const figures = ["threshold", "segments", "hours", "speakers gone", "verified precision"].map((name) => {
      const value = make("div", { class: "nba-figure-value", text: "–" });
      const more = make("div", { class: "nba-faint nba-figure-more" });
      return { value, more, element: make("div", { class: "nba-figure" }, make("div", { class: "nba-faint", text: name }), value, more) };
    });
    const [threshold, segments, hours, gone, precision] = figures;
    const losses = make("div", { class: "nba-losses" });
    const sides = ["kept", "out"].map((side) => {
      const list = make("div", { class: "nba-examples" });
      return { side, list, element: make("div", { class: "nba-side" }, make("div", { class: "nba-faint", text: side === "kept" ? "just kept" : "just out" }), list) };
    });
    const listening = make("div", { class: "nba-listening", hidden: true });
    root.append(
      make("div", { class: "nba-bar" }, measures, label),
      canvas,
      make("div", { class: "nba-figures" }, ...figures.map((figure) => figure.element)),
      losses,
      make("div", { class: "nba-sides" }, ...sides.map((side) => side.element)),
      listening,
    );
    const player = createPlayer(listening, { ask, root });
    close(() => player.stop());

    async function open(measure) {
      const { result, buffers } = await ask("tuner.open", { measure });
      const [kept, time] = buffers;
      counts = {
        ...result, measure,
        kept: new Uint32Array(kept.buffer.slice(kept.byteOffset, kept.byteOffset + kept.byteLength)),
        time: new Float32Array(time.buffer.slice(time.byteOffset, time.byteOffset + time.byteLength)),
      };
      label.textContent = result.label;
      proof = null;
      ask("tuner.evidence", { measure }).then(({ result: found }) => {
        if (counts.measure !== measure) return;
        proof = found;
        draw();
      });
      measures.replaceChildren(
        ...result.measures.map((name) => {
          const one = button(name, `threshold on ${name}`, () => choose(name));
          one.setAttribute("role", "radio");
          one.setAttribute("aria-checked", name === measure);
          one.setAttribute("aria-pressed", name === measure);
          return one;
        }),
      );
    }

    const nearest = (value) => counts.grid.reduce((best, each, i) => (Math.abs(each - value) < Math.abs(counts.grid[best] - value) ? i : best), 0);

    async function choose(measure) {
      await open(measure);
      const value = measure === model.get("measure") ? model.get("value") : counts.grid[Math.round(counts.grid.length * (counts.least ? 0.9 : 0.5))];
      model.set("measure", measure);
      move(nearest(value));
      root.focus({ preventScroll: true });
    }

    const tell = settled(() => {
      model.set("value", counts.grid[at]);
      model.save_changes();
      bring();
    }, 120);

    function move(position) {
      at = Math.max(0, Math.min(counts.grid.length - 1, position));
      if (!waiting) waiting = requestAnimationFrame(() => ((waiting = 0), draw()));
      tell();
    }

    async function bring() {
      const asked = at;
      const { result } = await ask("tuner.examples", { measure: counts.measure, value: counts.grid[at] });
      if (asked !== at) return;
      examples = [...result.kept, ...result.out];
      chosen = -1;
      for (const { side, list } of sides) {
        list.replaceChildren(
          ...result[side].map((example) => {
            const index = examples.indexOf(example);
            return make(
              "button",
              { type: "button", class: "nba-example", title: example.segment_id, on: { click: () => hear(index) } },
              make("span", { class: "nba-score", text: example.score.toFixed(2) }),
              make("span", { class: "nba-isolate nba-example-text", dir: "auto", text: example.text || example.segment_id }),
            );
          }),
        );
        if (!result[side].length) list.replaceChildren(make("span", { class: "nba-faint", text: "none" }));
      }
    }

    async function hear(index) {
      if (!examples.length) return;
      chosen = (index + examples.length) % examples.length;
      root.querySelectorAll(".nba-example").forEach((element, i) => element.classList.toggle("nba-chosen", i === chosen));
      listening.hidden = false;
      await player.show(examples[chosen].number, { play: true });
      player.prefetch(examples[(chosen + 1) % examples.length].number);
      root.focus({ preventScroll: true });
    }

    // the picture: everything that a move changes, in one frame

    function draw() {
      const begun = performance.now();
      drawPlot();
      const total = counts.all_segments;
      const time = counts.all_hours;
      const share = (part, whole) => `${((100 * part) / (whole || 1)).toFixed(1)} %`;
      threshold.value.textContent = counts.grid[at].toFixed(2);
      threshold.more.textContent = counts.least ? "and more is kept" : "and less is kept";
      segments.value.textContent = number(counts.segments[at]);
      segments.more.textContent = `${share(counts.segments[at], total)} of ${number(total)}`;
      hours.value.textContent = duration(counts.hours[at], time);
      hours.more.textContent = `${share(counts.hours[at], time)} of ${duration(time)}`;
      drawProof();
      gone.value.textContent = number(counts.vanished[at]);
      gone.more.textContent = `of ${number(counts.all_speakers)}`;
      drawLosses();
      canvas.setAttribute("aria-valuemin", counts.grid[0]);
      canvas.setAttribute("aria-valuemax", counts.grid[counts.grid.length - 1]);
      canvas.setAttribute("aria-valuenow", counts.grid[at]);
      canvas.setAttribute("aria-valuetext", `${counts.grid[at].toFixed(2)}: ${number(counts.segments[at])} segments kept`);
      root.dataset.drawn = (performance.now() - begun).toFixed(2);
    }

    function drawProof() {
      const percent = (share) => `${(100 * share).toFixed(1)} %`;
      const known = proof && proof.precision[at] !== null;
      precision.value.textContent = known ? percent(proof.precision[at]) : "–";
      precision.more.textContent = known
        ? `${percent(proof.low[at])} to ${percent(proof.high[at])}, ${number(proof.reviewed[at])} reviewed`
        : proof ? "nothing of it was reviewed" : counts.measure === "similarity" ? "no verdicts yet" : "by similarity only";
    }

    /** Verified precision over the histogram, with its interval: 0 at the foot, 1 at the top. */
    function drawBand(pen, width, style) {
      const x = (i) => (i / counts.bins.length) * width;
      const y = (share) => PLOT_PX - share * (PLOT_PX - 6);
      const known = proof.precision.map((_, i) => i).filter((i) => proof.precision[i] !== null);
      pen.fillStyle = pen.strokeStyle = style.color;
      pen.globalAlpha = 0.12;
      pen.beginPath();
      known.forEach((i) => pen.lineTo(x(i), y(proof.high[i])));
      [...known].reverse().forEach((i) => pen.lineTo(x(i), y(proof.low[i])));
      pen.fill();
      pen.globalAlpha = 0.7;
      pen.beginPath();
      known.forEach((i) => pen.lineTo(x(i), y(proof.precision[i])));
      pen.stroke();
      pen.globalAlpha = 1;
    }

    function drawPlot() {
      const scale = window.devicePixelRatio || 1;
      const width = canvas.clientWidth || 600;
      canvas.width = width * scale;
      canvas.height = (PLOT_PX + AXIS_PX) * scale;
      const pen = canvas.getContext("2d");
      pen.scale(scale, scale);
      const style = getComputedStyle(root);
      const hold = style.getPropertyValue("--hold").trim();
      const most = Math.max(1, ...counts.bins);
      const step = width / counts.bins.length;
      counts.bins.forEach((count, i) => {
        if (!count) return;
        const kept = counts.least ? i >= at : i < at;
        const height = Math.max(1, (count / most) * (PLOT_PX - 6));
        if (kept) {
          pen.fillStyle = hold;
          pen.fillRect(i * step + 0.3, PLOT_PX - height, step - 0.6, height);
        } else {
          pen.strokeStyle = "#8a8a8a";
          pen.strokeRect(i * step + 0.5, PLOT_PX - height + 0.5, Math.max(0.5, step - 1), height - 0.5);
        }
      });
      pen.fillStyle = style.color;
      pen.globalAlpha = 0.7;
      pen.fillRect(0, PLOT_PX, width, 1);
      pen.font = "11px sans-serif";
      for (const part of [0, 0.25, 0.5, 0.75, 1]) {
        const text = String(counts.grid[Math.round(part * (counts.grid.length - 1))]).replace("-", "−");
        pen.textAlign = part === 0 ? "left" : part === 1 ? "right" : "center";
        pen.fillText(text, part * width, PLOT_PX + 14);
      }
      pen.globalAlpha = 1;
      if (proof) drawBand(pen, width, style);
      const x = Math.min(width - 1, Math.max(1, (at / counts.bins.length) * width));
      pen.fillStyle = style.getPropertyValue("--warn").trim();
      pen.fillRect(x - 1, 0, 2, PLOT_PX);
      pen.beginPath();
      pen.arc(x, 7, 6, 0, 2 * Math.PI);
      pen.fill();
    }

    function drawLosses() {
      const width = counts.grid.length + 1; // the last of a row is all of it
      const lost = counts.speakers.map((name, i) => {
        const row = i * width;
        const amounts = counts.time[row + width - 1] ? counts.time : counts.kept;
        const share = 1 - amounts[row + at] / amounts[row + width - 1];
        return { name, share, hours: counts.time[row + width - 1] - counts.time[row + at], gone: !counts.kept[row + at] };
      });
      const vanished = lost.filter((speaker) => speaker.gone).map((speaker) => speaker.name);
      const worst = lost.filter((speaker) => !speaker.gone && speaker.share > 0).sort((a, b) => b.share - a.share).slice(0, WORST_SPEAKERS);
      const bar = ({ name, share, hours: time }) =>
        make(
          "div", { class: "nba-loss" },
          make("span", { class: "nba-isolate nba-loss-name", dir: "auto", text: name }),
          make("span", { class: "nba-loss-bar" }, make("span", { style: `width:${(100 * share).toFixed(1)}%` })),
          make("span", { class: "nba-faint", text: `−${(100 * share).toFixed(0)} %, ${duration(time)}` }),
        );
      losses.replaceChildren(
        make("div", { class: "nba-faint", text: worst.length ? "speakers that lose the most" : "no speaker loses anything" }),
        make("div", { class: "nba-loss-grid" }, ...worst.map(bar)),
      );
      if (vanished.length) {
        const more = counts.vanished[at] - Math.min(NAMED, vanished.length);
        const names = vanished.slice(0, NAMED).map((name) => make("span", { class: "nba-isolate nba-gone-name", dir: "auto", text: name }));
        losses.append(make("div", { class: "nba-vanished" }, make("span", { text: "gone altogether: " }), ...names, more ? make("span", { text: `and ${number(more)} more` }) : ""));
      }
    }

    // hands

    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return Math.round(((event.clientX - box.left) / box.width) * (counts.grid.length - 1));
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      move(place(event));
    });
    canvas.addEventListener("pointermove", (event) => event.buttons && move(place(event)));
    keys((event) => {
      const step = event.shiftKey ? 10 : 1;
      if (event.key === "ArrowRight") move(at + step);
      else if (event.key === "ArrowLeft") move(at - step);
      else if (event.key === "Home") move(0);
      else if (event.key === "End") move(counts.grid.length - 1);
      else if (event.key === "ArrowDown") hear(chosen + 1);
      else if (event.key === "ArrowUp") hear(chosen - 1);
      else if (event.key === " " && chosen < 0) hear(0);
      else return player.key(event);
      return true;
    });
    model.on("change:value", () => counts && nearest(model.get("value")) !== at && move(nearest(model.get("value"))));
    new ResizeObserver(() => counts && drawPlot()).observe(root);
    await choose(model.get("measure"));
  });
}
