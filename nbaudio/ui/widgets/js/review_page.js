// A review page: the review panel with the kernel in the page, and verdicts saved to and loaded
// from a file.

function startPage() {
  const round = JSON.parse(document.getElementById("data").textContent);
  const host = document.getElementById("review");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const setTheme = () => (document.body.dataset.jpThemeLight = String(!dark.matches));
  dark.addEventListener("change", setTheme);
  setTheme();

  const kernel = createKernel(round, { onChange: () => showState() });
  const { state } = kernel;
  let close = () => {};

  const status = make("span", { class: "nba-faint", role: "status" });
  const message = make("p", { class: "nba-page-message", role: "alert", hidden: true });
  const save = button("save verdicts", "save the verdicts to a file, to send back", () =>
    saveFile(),
  );
  const load = button(
    "load verdicts",
    "load a verdict file that this page saved, such as on another computer",
    () => chooser.click(),
  );
  const chooser = make("input", {
    type: "file",
    accept: ".json",
    hidden: true,
    "aria-label": "verdict file",
  });
  const lost = make("p", {
    class: "nba-page-message",
    hidden: true,
    text: "This browser keeps nothing for this page: save the verdicts often, and load that file to continue.",
  });
  const panel = make("div", {});
  host.append(
    make(
      "header",
      { class: "nba nba-page" },
      make("h1", { dir: "auto", text: `Review ${round.review}` }),
      status,
      make("span", { class: "nba-space" }),
      save,
      load,
      chooser,
      lost,
      message,
    ),
  );
  host.append(panel);

  function say(text) {
    message.hidden = !text;
    message.textContent = visible(text);
  }

  /** Say whether all verdicts are in a verdict file; empty if there are none. */
  function describeSaved(unsaved) {
    if (unsaved) {
      const changes = unsaved === 1 ? "change is" : "changes are";
      return `${number(unsaved)} ${changes} not in a verdict file yet`;
    }
    return kernel.judged() ? "all verdicts are in the verdict file" : "";
  }

  function showState() {
    const { unsaved, stored, reviewer } = state;
    status.textContent = describeSaved(unsaved);
    lost.hidden = stored;
    save.disabled = load.disabled = !reviewer;
  }

  function saveFile() {
    const name = [round.review, state.reviewer]
      .map((part) => part.replace(/[^\p{L}\p{N}._-]+/gu, "_"))
      .join("-");
    const url = URL.createObjectURL(new Blob([kernel.verdictFile()], { type: "application/json" }));
    make("a", { href: url, download: `${name}-verdicts.json` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
    kernel.markSaved();
    say("");
  }

  chooser.addEventListener("change", async () => {
    const [file] = chooser.files;
    chooser.value = "";
    try {
      if (file.size > MOST_FILE_BYTES) throw new Error("too large for a verdict file");
      const taken = kernel.takeFile(await file.text());
      openPanel();
      say(
        `${file.name}: ${number(taken)} ${taken === 1 ? "verdict is" : "verdicts are"} loaded; newer ones of this page are kept`,
      );
    } catch (error) {
      say(`${file.name}: not loaded: ${error.message}`);
    }
  });

  function openPanel() {
    close();
    panel.replaceChildren();
    close = render({ model: kernel.model, el: panel });
    panel.firstChild.focus({ preventScroll: true });
  }

  const start = (reviewer) => (kernel.switchTo(reviewer), openPanel());

  /** Ask for the reviewer's name, which this browser remembers. */
  function askName() {
    const field = make("input", {
      type: "text",
      "aria-label": "your name",
      maxlength: "40",
      autocomplete: "off",
    });
    const begin = button("begin", "begin to review", () => {
      const name = field.value.trim();
      if (name) start(name);
      else field.focus();
    });
    field.addEventListener("keydown", (event) => event.key === "Enter" && begin.click());
    panel.replaceChildren(
      make(
        "div",
        { class: "nba nba-page" },
        make("label", {}, "your name, stored with the verdicts ", field),
        begin,
      ),
    );
    field.focus();
  }

  // Keys work wherever the focus is, as the page is nothing but the panel.
  document.addEventListener("keydown", (event) => {
    const root = panel.firstChild;
    if (event.target !== document.body || !root?.matches(".nba-review-panel")) return;
    root.focus({ preventScroll: true });
    const { key, code, shiftKey, ctrlKey, altKey, metaKey } = event;
    if (
      !root.dispatchEvent(
        new KeyboardEvent("keydown", {
          key,
          code,
          shiftKey,
          ctrlKey,
          altKey,
          metaKey,
          bubbles: true,
          cancelable: true,
        }),
      )
    )
      event.preventDefault();
  });
  const missing =
    "The clips are not there: keep the folder 'clips' beside this page, and unpack a .zip first.";
  document.addEventListener(
    "error",
    (event) => event.target.matches?.("audio") && say(missing),
    true,
  );
  window.addEventListener("beforeunload", (event) => {
    if (!state.unsaved) return;
    event.preventDefault();
    event.returnValue = true; // for older browsers
  });

  showState();
  const reviewer = round.reviewer || state.last;
  if (reviewer) start(reviewer);
  else askName();
}
