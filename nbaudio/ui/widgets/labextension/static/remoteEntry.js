// JupyterLab and Notebook 7 extension: the output of a widget shows its stored HTML, or else its text, while the widget has no
// model, as in a notebook opened again without its kernel. A hand-written module federation container; no build step.

(() => {
  const WIDGET = "application/vnd.jupyter.widget-view+json";
  const STORED = ["text/html", "text/plain"];
  const DELAY_MS = 1000; // a widget with a kernel is shown sooner

  let shared = {};

  /** Return a module shared by JupyterLab: the loaded version, else the highest; undefined if there is none. */
  async function load(name) {
    const versions = Object.entries(shared[name] ?? {});
    versions.sort(([a, one], [b, other]) => Boolean(other.loaded) - Boolean(one.loaded) || b.localeCompare(a, "en", { numeric: true }));
    return versions.length ? (await versions[0][1].get())() : undefined;
  }

  /** Make the renderer of widgets show the stored HTML until there is a live view. */
  function showStored(registry) {
    const factory = registry.getFactory(WIDGET);
    if (!factory) return;
    const sample = factory.createRenderer({ mimeType: WIDGET });
    const renderer = Object.getPrototypeOf(sample);
    sample.dispose();
    const renderModel = renderer.renderModel;

    renderer.renderModel = async function (model) {
      const kind = STORED.find((each) => model.data[each] !== undefined);
      if (!kind) return renderModel.call(this, model);
      const show = async () => {
        if (!this.nbaudioStored) {
          this.nbaudioStored = registry.createRenderer(kind);
          this.disposed.connect(() => this.nbaudioStored.dispose());
          await this.nbaudioStored.renderModel(model);
        }
        if (!this.isDisposed && !this.widgets.length) this.node.replaceChildren(this.nbaudioStored.node);
      };
      const timer = setTimeout(show, this.nbaudioStored ? 0 : DELAY_MS);
      try {
        await renderModel.call(this, model);
      } finally {
        clearTimeout(timer);
        await show();
      }
    };
  }

  async function extension() {
    const [base, rendermime] = await Promise.all([load("@jupyter-widgets/base"), load("@jupyterlab/rendermime")]);
    const requires = [rendermime?.IRenderMimeRegistry, base?.IJupyterWidgetRegistry]; // the latter: after the widgets' renderer
    const plugin = { id: "nbaudio:stored-views", autoStart: true, requires, activate: (app, registry) => showStored(registry) };
    return { __esModule: true, default: requires.every(Boolean) ? [plugin] : [] };
  }

  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB.nbaudio = {
    init: (scope) => (shared = scope),
    get: () => extension().then((made) => () => made),
  };
})();
