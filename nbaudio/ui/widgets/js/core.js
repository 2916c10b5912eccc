// Shared by the front ends of all widgets: elements, requests to Python, keys, errors.
// The files of this folder are not modules: `front_end` in core/bundled_files.py concatenates those
// that a widget needs. Texts of segments reach the page by textContent only.

const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

const DRAGGED_PX = 4; // less is a click
const TIMEOUT_MS = 4000;
const BUSY =
  "no response yet: the kernel is busy or unreachable; nothing is saved until it responds";
const GONE = "kernel gone: run this cell again";
// Widgets of a view, as the list of its keys names them.
const PART_NAMES = { "segment-table": "table", "explorer-actions": "actions" };
const KERNEL_ENDED = ["restarting", "autorestarting", "terminating", "dead"];
// Whether the server is on this machine: see `_PACKET_BYTES` in base_widget.py.
const NEAR = ["localhost", "127.0.0.1", "[::1]"].includes(window.location.hostname);

/** Replace control characters, which a page would not show, by their symbols. */
function visible(text) {
  return String(text).replace(CONTROLS, (c) =>
    c === "\u007f" ? "\u2421" : String.fromCharCode(0x2400 + c.charCodeAt(0)),
  );
}

/**
 * Set attributes of an element and append children; `text` is its text, `on` its listeners. Returns
 * the element.
 */
function assign(element, attributes, ...children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = visible(value);
    else if (name === "style")
      element.style.cssText = value; // the attribute is refused by the policy of a review page
    else if (name === "on")
      for (const [event, listener] of Object.entries(value))
        element.addEventListener(event, listener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const make = (tag, attributes = {}, ...children) =>
  assign(document.createElement(tag), attributes, ...children);

/** Return the numbers of a buffer from Python, which may begin anywhere in a larger one. */
const numbersOf = (view, type) =>
  new type(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));

/**
 * Create the bars of a histogram; the lowest that is not empty has `least` percent of the height of
 * `most`.
 */
function drawBars(counts, most, least, kind = "") {
  const height = (count) => (count ? Math.max(least, (100 * count) / most) : 0);
  return make(
    "span",
    { class: `nba-bars ${kind}` },
    ...counts.map((count) => make("span", { style: `height: ${height(count)}%` })),
  );
}

/** Create a button; `key` is shown beside its label. */
function button(label, title, action, key = "") {
  return make(
    "button",
    { type: "button", text: label, title, "aria-label": title, on: { click: action } },
    ...(key ? [make("kbd", { text: key })] : []),
  );
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** Format hours; as minutes if there are less than two hours in all. */
function duration(hours, all = hours) {
  return all >= 2 ? `${number(hours, 1)} h` : `${number(60 * hours, 1)} min`;
}

function clock(seconds) {
  const least = Math.abs(seconds);
  const minutes = Math.floor(least / 60);
  return `${seconds < -0.005 ? "−" : ""}${minutes}:${(least - 60 * minutes).toFixed(2).padStart(5, "0")}`;
}

/**
 * Debounce `action`: run only the last call, once there was none for `wait` ms, or at once by
 * `flush()`.
 */
function debounce(action, wait) {
  let timer = 0;
  let pending = null;
  function flush() {
    clearTimeout(timer);
    const call = pending;
    pending = null;
    call?.();
  }
  const debounced = (...values) => {
    clearTimeout(timer);
    pending = () => action(...values);
    timer = setTimeout(flush, wait);
  };
  return Object.assign(debounced, { flush });
}

/**
 * Call `onMove(event)` while `element` is dragged, then `onUp(moved)`, unless `onDown(event)` is
 * false; `upright`: in any direction.
 */
function onDrag(element, { onDown = () => {}, onMove, onUp = () => {}, upright = false }) {
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || onDown(event) === false) return;
    event.stopPropagation();
    element.setPointerCapture(event.pointerId);
    let moved = false;
    const move = (next) => {
      moved ||=
        Math.hypot(next.clientX - event.clientX, upright ? next.clientY - event.clientY : 0) >=
        DRAGGED_PX;
      if (moved) onMove(next);
    };
    const up = () => {
      element.removeEventListener("pointermove", move);
      element.removeEventListener("lostpointercapture", up);
      onUp(moved);
    };
    element.addEventListener("pointermove", move);
    element.addEventListener("lostpointercapture", up);
  });
}

/**
 * Create a menu, and the button that opens and closes it; `opened` is called each time it opens.
 */
function createMenu(label, title, attributes = {}, opened = () => {}) {
  const menu = make("div", { class: "nba-menu", hidden: true, ...attributes });
  const choose = button(label, title, () => toggle(menu.hidden));
  function toggle(on) {
    menu.hidden = !on;
    choose.setAttribute("aria-expanded", on);
    if (on) opened();
  }
  toggle(false);
  return { menu, choose, toggle };
}

/** Create a checkbox with its label; `changed(on)` is called when it is changed. */
function checkbox(text, on, changed) {
  const box = make("input", {
    type: "checkbox",
    checked: on,
    on: { change: () => changed(box.checked) },
  });
  return make("label", {}, box, make("span", { dir: "auto", text }));
}

/**
 * Return `{ key, help }` of rows `[names, meaning, { key: action }]`; an action gets the event, and
 * returns false if it does not use the key.
 */
function bindKeys(rows) {
  const actions = Object.assign({}, ...rows.map(([, , rowActions]) => rowActions));
  const key = (event) => event.key in actions && actions[event.key](event) !== false;
  return { key, help: rows.map(([names, meaning]) => [names, meaning]) };
}

/**
 * Bind keys 1, 2, ... to verdicts, the words of `_verdicts`, on the segment with the number that
 * `current()` returns.
 */
function bindVerdicts({ root, model, request, bind }, current) {
  const words = model.get("_verdicts") ?? [];
  const status = make("div", { class: "nba-faint", role: "status" });
  if (words.length) root.append(status);
  async function give(word) {
    const { result } = await request("verdict", { number: (await current()) ?? -1, word });
    status.textContent = visible(result);
  }
  bind(
    words.map((word, i) => [
      `${i + 1}`,
      `log the verdict “${word}” for the segment`,
      { [i + 1]: () => void give(word).catch(() => {}) },
    ]),
  );
}

/**
 * Resize a canvas to `width` and `height` in CSS pixels; return its empty context, in that unit.
 */
function resizeCanvas(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, width * scale);
  canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  return pen;
}

/**
 * Return a function that marks, of words with `element`, `start` and `end`, the one at a time with
 * a class; null is no time.
 */
function createHighlight(kind) {
  let marked = null;
  return (words, seconds) => {
    const now =
      seconds === null
        ? null
        : (words.find((word) => word.start <= seconds && seconds < word.end)?.element ?? null);
    if (now === marked) return;
    marked?.classList.remove(kind);
    now?.classList.add(kind);
    marked = now;
  };
}

/**
 * Return the keys of a widget as a list; rows in `listedRows` were listed before and are left out.
 */
function listKeys(rows, listedRows) {
  const list = make("dl", { class: "nba-keys" });
  for (const [names, meaning] of rows) {
    const row = JSON.stringify([names, meaning]);
    if (listedRows.has(row)) continue;
    listedRows.add(row);
    list.append(
      make(
        "div",
        {},
        make("dt", {}, ...names.split(" ").map((name) => make("kbd", { text: name }))),
        make("dd", { text: meaning }),
      ),
    );
  }
  return list;
}

/** Open a dialog over the page with the keys of a widget and of those that it forms a view with. */
function showKeys(root) {
  const view = root.closest(".nba-view");
  const roots = view ? [...view.querySelectorAll(".nba")] : [root];
  const listedRows = new Set();
  const lists = roots.flatMap((widgetRoot) => {
    const list = listKeys(widgetRoot.listKeys(), listedRows);
    if (!list.childElementCount) return [];
    return view
      ? [make("h4", { text: PART_NAMES[widgetRoot.dataset.name] ?? widgetRoot.dataset.name }), list]
      : [list];
  });
  const hint = make("p", {
    class: "nba-faint",
    text: `keys of this ${view ? "view" : "widget"}; ?, Esc or a click closes`,
  });
  const on = { click: () => dialog.close(), close: () => dialog.remove() };
  // The browser keeps the focus inside until the dialog closes, then gives it back.
  const dialog = make(
    "dialog",
    { class: "nba-dialog", role: "dialog", "aria-label": "keys", tabindex: "0", on },
    hint,
    ...lists,
  );
  root.append(dialog);
  dialog.showModal();
  dialog.focus();
}

/**
 * Set up a widget. `build` gets its root and model, and functions: `request(call, arguments)`
 * returns a promise of `{ result, buffers, later }`, where `later` is a promise of buffers sent
 * after the result; `keys(handler, rows)` adds a handler that returns whether it used a key, and
 * the rows of `showKeys` about its keys; `bind(rows)` adds those of `bindKeys`; `close(action)`
 * adds an action to run when the widget is removed or its kernel is gone; `watch(event, action)`
 * runs an action at each event of the model until then.
 */
function mount({ model, el }, name, build) {
  const view = Math.random().toString(36).slice(2);
  const pending = new Map();
  const laterBuffers = new Map();
  const handlers = [];
  const help = []; // rows of each handler, or functions that return them
  const closing = [];
  const kernel = model.widget_manager?.kernel; // JupyterLab and Notebook have it, other front ends may not
  let sent = 0;
  let lastAnswered = 0; // number of the last request that was answered
  let comm = ""; // id of the comm, once Python has answered
  let gone = false;

  const alarm = make("div", { class: "nba-alarm", role: "alert", hidden: true });
  const root = make("div", { class: `nba nba-${name}`, "data-name": name, tabindex: "0" });
  root.listKeys = () => help.flatMap((rows) => (typeof rows === "function" ? rows() : rows));
  const ask = button("?", "show the keys (key ?)", () => showKeys(root));
  ask.classList.add("nba-ask");
  el.append(root);

  function showError(error) {
    const text = String(error.message ?? error);
    if (gone && !text.includes(GONE)) return;
    alarm.textContent = visible(text);
    alarm.hidden = false;
    delete alarm.dataset.waits;
  }

  const keys = (handler, rows = []) => (handlers.push(handler), help.push(rows));
  const close = (action) => closing.push(action);
  function watch(event, action) {
    model.on(event, action);
    close(() => model.off(event, action));
  }

  /**
   * Return a promise of the response; rejected if the kernel ends first, never settled if it has
   * ended before.
   */
  function request(call, values = {}) {
    if (gone) return new Promise(() => {});
    const count = ++sent;
    const number = `${view}:${count}`;
    if (!model.local) setTimeout(() => checkLate(number, count), TIMEOUT_MS); // the model of a page has no kernel
    return new Promise((resolve, reject) => {
      pending.set(number, { call, resolve, reject });
      try {
        model.send({ call, number, arguments: values, near: NEAR });
      } catch {
        disconnect(); // the comm was closed
      }
    });
  }

  /**
   * Show that a response is late; disconnect if the kernel, once it responds to anything, has no
   * comm of this widget.
   */
  async function checkLate(number, count) {
    if (!pending.has(number) || lastAnswered > count) return;
    showError(kernel ? BUSY : `${BUSY}. If it was restarted, run this cell again`);
    alarm.dataset.waits = true;
    const { content } =
      (await kernel?.requestCommInfo({ target_name: "jupyter.widget" }).catch(disconnect)) ?? {};
    if (comm && pending.has(number) && content?.comms && !content.comms[comm]) disconnect();
  }

  /** Show that the kernel is gone, and disable the widget. */
  function disconnect() {
    if (gone) return;
    gone = true;
    showError(GONE);
    root.classList.add("nba-gone");
    // With no focus in the widget, its keys would go to the notebook.
    if (root.contains(root.getRootNode().activeElement)) root.focus({ preventScroll: true });
    for (const child of root.children) child.inert = child !== alarm;
    closing.splice(0).forEach((action) => action());
    for (const { reject } of pending.values()) reject(new Error(GONE));
    pending.clear();
  }

  const status = (_, now) => KERNEL_ENDED.includes(now) && disconnect();
  watch("comm_live_update", () => el.closest(".jupyter-widgets-disconnected") && disconnect());
  watch("comm:close", disconnect);
  kernel?.statusChanged.connect(status);
  kernel?.disposed.connect(disconnect);

  function onMessage(message, buffers) {
    if (message.later) {
      laterBuffers.get(message.number)?.(buffers);
      laterBuffers.delete(message.number);
      return;
    }
    const answer = pending.get(message.number);
    if (!answer) return;
    comm = message.comm;
    pending.delete(message.number);
    lastAnswered = Number(message.number.split(":")[1]);
    if (alarm.dataset.waits) alarm.hidden = true;
    delete alarm.dataset.waits;
    if (message.error === undefined) {
      if (alarm.dataset.call === answer.call) alarm.hidden = true; // a repeated request succeeded
      const later = message.more
        ? new Promise((resolve) => laterBuffers.set(message.number, resolve))
        : null;
      answer.resolve({ result: message.result, buffers, later });
    } else {
      const error = new Error(message.error);
      showError(error);
      alarm.dataset.call = answer.call;
      answer.reject(error);
    }
  }
  watch("msg:custom", onMessage);

  // A message stays until the user does something else.
  const dismiss = ({ target }) =>
    target !== alarm && !gone && !alarm.dataset.waits && (alarm.hidden = true);
  for (const kind of ["keydown", "click"]) root.addEventListener(kind, dismiss, true);

  // No key may reach the notebook: with a button in focus its letters would cut and paste cells.
  // Saving stays.
  root.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") return;
    event.stopPropagation();
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches(
      "input:not([type=range]):not([type=checkbox]), textarea, select",
    );
    if (typing && event.key !== "Escape") return;
    const dialog = event.target.closest(".nba-dialog");
    if (dialog || event.key === "?") {
      if (dialog && event.key !== "?" && event.key !== "Escape") return;
      if (dialog) dialog.close();
      else showKeys(root);
      event.preventDefault();
      return;
    }
    if (event.target.matches("button") && (event.key === "Enter" || event.key === " ")) return;
    if (typing) root.focus();
    else if (!gone && handlers.some((handler) => handler(event))) event.preventDefault();
  });

  function bind(rows) {
    const bound = bindKeys(rows);
    keys(bound.key, bound.help);
  }
  // Requests show their own errors; nothing else handles them.
  Promise.resolve(build({ root, model, request, showError, keys, bind, close, watch })).catch(
    showError,
  );
  root.prepend(alarm, ask);
  return () => {
    kernel?.statusChanged.disconnect(status);
    kernel?.disposed.disconnect(disconnect);
    closing.splice(0).forEach((action) => action());
  };
}
