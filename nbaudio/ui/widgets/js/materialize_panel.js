const POLL_MS = 300;

function render(widget) {
  return mount(widget, "materialize-panel", async ({ root, request, keys, close }) => {
    const status = make("span", { class: "nba-status", role: "status" });
    const cancel = button("Cancel", "stop at once; finished work is kept", () => run("job.cancel"));
    const start = button("Start", "continue", () => run("job.start"));
    const stages = make("div", { class: "nba-stages" });
    const link = make("a", { class: "nba-link", target: "_blank", rel: "noopener", hidden: true, text: "corpus.json" });
    const heading = make("div", { class: "nba-faint", hidden: true });
    const ledger = make("div", { class: "nba-ledger", role: "log", "aria-label": "ledger", hidden: true, tabindex: "0" });
    root.append(make("div", { class: "nba-bar" }, status, make("span", { class: "nba-space" }), link, start, cancel), stages, heading, ledger);
    let timer = 0;
    let over = false;
    close(() => clearTimeout(timer));

    const formatSeconds = (seconds) => (seconds < 90 ? `${number(seconds, 1)} s` : seconds < 5400 ? `${number(seconds / 60, 1)} min` : `${number(seconds / 3600, 1)} h`);

    function stageRow(stage) {
      const share = stage.total ? Math.min(1, stage.done / stage.total) : 1;
      const amount = (value) => (Number.isInteger(stage.total) ? number(Math.round(value)) : value.toFixed(2));
      const fill = make("span", { style: `width: ${100 * share}%` });
      const bar = make("div", { class: "nba-stage-bar", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share), "aria-label": stage.what }, fill);
      const pace = stage.rate === null ? "" : stage.unit.startsWith("h of") ? `${number(stage.rate * 3600, 0)} times real time` : `${number(stage.rate, 1)} ${stage.unit} a second`;
      const time = stage.over ? `took ${formatSeconds(stage.seconds)}` : stage.left_s === null ? "" : `${formatSeconds(stage.left_s)} left`;
      return make(
        "div", { class: "nba-stage-row" },
        make("span", { class: "nba-stage-name", text: stage.what }), bar,
        make("span", { class: "nba-stage-text", text: `${amount(stage.done)} of ${amount(stage.total)} ${stage.unit}` }),
        make("span", { class: "nba-faint nba-stage-text", text: [pace, time].filter(Boolean).join(" · ") }),
      );
    }

    /** URL at which Jupyter's server has the corpus.json of a folder relative to the notebook; null if unknown. */
    function corpusUrl(place) {
      const opened = window.location.pathname.match(/^(.*?)\/(?:lab|doc|notebooks|edit)(?:\/workspaces\/[^/]+)?(?:\/tree)?\/(.+)$/);
      if (!opened || !place || place.startsWith("/")) return null;
      const files = `${opened[1]}/files/`;
      const parts = place.split("/").map(encodeURIComponent);
      const { pathname } = new URL(`${parts.join("/")}/corpus.json`, `${window.location.origin}${files}${opened[2]}`);
      return pathname.startsWith(files) ? pathname : null;
    }

    function draw(state) {
      root.dataset.status = state.status;
      const meaning = { cancelled: "finished work is kept", failed: state.error }[state.status];
      over = state.status !== "running" && state.status !== "stopping";
      status.textContent = visible(meaning ? `${state.status}: ${meaning}` : state.status);
      cancel.disabled = state.status !== "running";
      start.disabled = !over;
      start.firstChild.textContent = state.status === "done" ? "Run again" : "Start";
      stages.replaceChildren(...state.stages.map(stageRow));
      heading.hidden = ledger.hidden = !state.noted;
      heading.textContent = `ledger: ${number(state.noted)} problems`;
      if (ledger.childElementCount !== state.lines.length || ledger.lastChild?.textContent !== visible(state.lines.at(-1) ?? "")) {
        ledger.replaceChildren(...state.lines.map((line) => make("div", { text: line, dir: "auto" })));
        ledger.scrollTop = ledger.scrollHeight;
      }
      const target = state.status === "done" ? corpusUrl(state.corpus) : null;
      link.hidden = !target;
      if (target) link.href = target;
    }

    // Request the state again whether or not a response has come: while a cell is busy, the kernel may not handle the first request.
    async function poll() {
      clearTimeout(timer);
      if (!over) timer = setTimeout(() => poll().catch(() => {}), POLL_MS);
      draw((await request("job.state")).result);
    }

    async function run(call) {
      over = false;
      request(call);
      await poll();
      root.focus({ preventScroll: true });
    }

    keys((event) => event.key === "Escape" && !cancel.disabled && (run("job.cancel"), true), [["Esc", "stop; finished work is kept"]]);
    await poll();
  });
}
