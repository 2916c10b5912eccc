// Scatter of two columns as a grid of densities from Python; a box chooses rows, a click shows the
// nearest segment.

function render(widget) {
  return mount(widget, "scatter", async ({ root, request, keys, watch }) => {
    let state = null;
    let levels = [];
    const axes = ["x", "y"].map((name) => {
      const select = make("select", {
        "aria-label": `${name} axis`,
        on: {
          change: () => request("scatter.axes", { x: across.select.value, y: up.select.value }),
        },
      });
      return {
        name,
        select,
        label: make("label", {}, `${name} `, select),
        low: make("span"),
        high: make("span"),
      };
    });
    const clear = button("clear", "clear the box", () => request("scatter.box", { box: null }));
    const status = make("span", { class: "nba-faint", role: "status" });
    const canvas = make("canvas", { class: "nba-density", role: "img" });
    const box = make("div", { class: "nba-box", hidden: true });
    const plot = make("div", { class: "nba-cloud" }, canvas, box);
    const tracks = axes.map(({ name }) =>
      make("div", { class: `nba-side-track nba-side-${name}` }),
    );
    const [across, up] = axes;
    const open = make(
      "details",
      { class: "nba-details" },
      make("summary", { text: "scatter of two columns" }),
    );
    const body = make(
      "div",
      { class: "nba-scatter-body" },
      make("div", { class: "nba-y-axis nba-faint" }, up.high, up.low),
      tracks[1],
      plot,
      tracks[0],
      make("div", { class: "nba-x-axis nba-faint" }, across.low, across.high),
    );
    const hint = make("div", {
      class: "nba-faint",
      text: "drag a box to filter, click near a point to show its segment",
    });
    const bar = make("div", { class: "nba-bar" }, across.label, up.label, clear, status);
    open.append(bar, body, hint);
    root.append(open);

    const cells = (name) => state[name].length - 1;
    const ranges = axes.map(({ name }, i) =>
      createRange(tracks[i], {
        label: `${name} axis`,
        vertical: name === "y",
        text: (edge) => axisNumber(state?.[name][edge] ?? 0),
        onChange: report,
        onDraw: () => state && outline(),
      }),
    );

    function outline() {
      const [[left, right], [low, high]] = ranges.map((range) => range.edges());
      const [wide, tall] = [cells("x"), cells("y")];
      box.hidden = left === 0 && low === 0 && right === wide && high === tall;
      Object.assign(box.style, {
        left: `${(100 * left) / wide}%`,
        width: `${(100 * (right - left)) / wide}%`,
        bottom: `${(100 * low) / tall}%`,
        height: `${(100 * (high - low)) / tall}%`,
      });
    }

    let reported = {}; // the box that has no response yet: both ranges report it
    function report() {
      const [[left, right], [low, high]] = ranges.map((range) => range.edges());
      const chosen = box.hidden ? null : [left, right - 1, low, high - 1];
      const text = String(chosen);
      if (text !== reported.text) {
        const mine = { text };
        mine.response = request("scatter.box", { box: chosen }).finally(() => {
          if (reported === mine) reported = {};
        });
        reported = mine;
      }
      return reported.response;
    }

    function draw() {
      if (!state) return;
      const { clientWidth: width, clientHeight: height } = canvas;
      const pen = resizeCanvas(canvas, width, height);
      const style = getComputedStyle(root);
      const [wide, tall] = [cells("x"), cells("y")];
      levels.forEach((level, i) => {
        pen.fillStyle = i ? style.getPropertyValue("--hold").trim() : "#8a8a8a";
        for (let place = 0; place < level.length; place += 1) {
          if (!level[place]) continue;
          pen.globalAlpha = (i ? 1 : 0.45) * (level[place] / 255);
          const [x, y] = [place % wide, Math.floor(place / wide)];
          const [left, top] = [(x * width) / wide, height - ((y + 1) * height) / tall];
          pen.fillRect(left, top, Math.max(1, width / wide), Math.max(1, height / tall));
        }
      });
    }

    let asked = 0;
    async function refresh() {
      if (!open.open) return;
      const mine = ++asked;
      const { result, buffers } = await request("scatter.state");
      if (mine !== asked) return;
      body.hidden = bar.hidden = !result.columns.length;
      if (body.hidden) hint.textContent = "there are no columns with numbers";
      if (body.hidden) return;
      state = result;
      levels = buffers.map((buffer) => numbersOf(buffer, Uint8Array));
      axes.forEach(({ name, select, low, high }, i) => {
        if (select.childElementCount !== state.columns.length) {
          select.replaceChildren(
            ...state.columns.map((column) => make("option", { value: column, text: column })),
          );
        }
        select.value = state.axes[i];
        low.textContent = axisNumber(state[name][0]);
        high.textContent = axisNumber(state[name][cells(name)]);
        ranges[i].set(cells(name), state.box && state.box.slice(2 * i, 2 * i + 2));
      });
      clear.disabled = !state.box;
      status.textContent = `${number(state.shown)} shown`;
      canvas.setAttribute(
        "aria-label",
        `${state.axes[1]} over ${state.axes[0]} of ${number(state.shown)} rows`,
      );
      draw();
    }

    let begun = [];
    const places = (event) => ranges.map((range) => range.edgeAt(event));
    onDrag(plot, {
      upright: true,
      onDown: (event) => (begun = places(event)),
      onMove: (event) => places(event).forEach((to, i) => ranges[i].stretch(begun[i], to)),
      onUp(moved) {
        if (moved) ranges.forEach((range) => range.flush());
        else request("scatter.nearest", { x: begun[0], y: begun[1] });
      },
    });
    open.addEventListener("toggle", refresh);
    watch("change:version", refresh);
    new ResizeObserver(draw).observe(canvas);
    keys(
      (event) => ranges.some((range) => range.key(event)),
      [
        ["← → ↑ ↓ PgUp PgDn Home End", "move a side of the box"],
        ["Esc", "clear a range"],
        ["Enter", "open or close"],
      ],
    );
  });
}
