// Shared by the front ends of all widgets: elements, requests to Python, keys, errors.
//
// The files of this folder are no modules: `base.py` concatenates those that a widget needs and exports the `render` of the last
// one. Texts of segments reach the page by textContent only.

const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

const TIMEOUT_MS = 4000;
const BUSY = "no response yet: the kernel is busy or unreachable; nothing is saved until it responds";
const GONE = "kernel gone: run this cell again";
const KERNEL_ENDED = ["restarting", "autorestarting", "terminating", "dead"];
// Whether the server is on this machine: see `_PACKET_BYTES` of base.py.
const NEAR = ["localhost", "127.0.0.1", "[::1]"].includes(window.location.hostname);

/** Replace control characters, which a page would not show, by their symbols. */
function visible(text) {
  return String(text).replace(CONTROLS, (c) => (c === "\u007f" ? "\u2421" : String.fromCharCode(0x2400 + c.charCodeAt(0))));
}

/** Create an element: `text` is its text, `on` its listeners, all else attributes; then its children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = visible(value);
    else if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Create a button. */
function button(label, title, action) {
  return make("button", { type: "button", text: label, title, "aria-label": title, on: { click: action } });
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** Format hours; as minutes if there are less than two hours in all. */
function duration(hours, all = hours) {
  return all >= 2 ? `${number(hours, 1)} h` : `${number(60 * hours, 1)} min`;
}

function clock(seconds) {
  const minutes = Math.floor(seconds / 60);
  return `${minutes}:${(seconds - 60 * minutes).toFixed(2).padStart(5, "0")}`;
}

/** Debounce `action`: run only the last call, once there was none for `wait` ms. */
function debounce(action, wait) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), wait);
  };
}

/**
 * Set up a widget: its root, requests, errors and keys.
 *
 * `build` gets `{ root, model, request, showError, keys, close }`: `request(call, arguments)` returns a promise of
 * `{ result, buffers, later }`, where `later` is a promise of buffers sent after the result; `keys(handler)` adds a handler that
 * returns whether it used a key; `close(action)` adds an action to run when the widget is removed or its kernel is gone.
 */
function mount({ model, el }, name, build) {
  const view = Math.random().toString(36).slice(2);
  const pending = new Map();
  const laterBuffers = new Map();
  const handlers = [];
  const closing = [];
  const kernel = model.widget_manager?.kernel; // JupyterLab and Notebook have it, other front ends may not
  let sent = 0;
  let lastAnswered = 0; // number of the last request that was answered
  let comm = ""; // id of the comm, once Python has answered
  let gone = false;

  const alarm = make("div", { class: "nba-alarm", role: "alert", hidden: true });
  const root = make("div", { class: `nba nba-${name}`, tabindex: "0" });
  el.append(root);

  function showError(error) {
    const text = String(error.message ?? error);
    if (gone && !text.includes(GONE)) return;
    alarm.textContent = visible(text);
    alarm.hidden = false;
    delete alarm.dataset.waits;
  }

  /** Return a promise of the response; rejected if the kernel ends first, never settled if it has ended before. */
  function request(call, values = {}) {
    if (gone) return new Promise(() => {});
    const count = ++sent;
    const number = `${view}:${count}`;
    if (!alarm.dataset.waits) alarm.hidden = true;
    setTimeout(() => checkLate(number, count), TIMEOUT_MS);
    return new Promise((resolve, reject) => {
      pending.set(number, { call, resolve, reject });
      try {
        model.send({ call, number, arguments: values, near: NEAR });
      } catch {
        disconnect(); // the comm was closed
      }
    });
  }

  /** Show that a response is late; disconnect if the kernel, once it responds to anything, has no comm of this widget. */
  async function checkLate(number, count) {
    if (!pending.has(number) || lastAnswered > count) return;
    showError(kernel ? BUSY : `${BUSY}. If it was restarted, run this cell again`);
    alarm.dataset.waits = true;
    const { content } = (await kernel?.requestCommInfo({ target_name: "jupyter.widget" }).catch(disconnect)) ?? {};
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

  const disconnected = () => el.closest(".jupyter-widgets-disconnected") && disconnect();
  const status = (_, now) => KERNEL_ENDED.includes(now) && disconnect();
  model.on("comm_live_update", disconnected);
  model.on("comm:close", disconnect);
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
    if (alarm.dataset.waits) {
      delete alarm.dataset.waits;
      alarm.hidden = true;
    }
    if (message.error === undefined) {
      if (alarm.dataset.call === answer.call) alarm.hidden = true; // a repeated request succeeded
      const later = message.more ? new Promise((resolve) => laterBuffers.set(message.number, resolve)) : null;
      answer.resolve({ result: message.result, buffers, later });
    } else {
      const error = new Error(message.error);
      showError(error);
      alarm.dataset.call = answer.call;
      answer.reject(error);
    }
  }
  model.on("msg:custom", onMessage);

  // No key may reach the notebook: with a button in focus its letters would cut and paste cells. Saving stays.
  root.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") return;
    event.stopPropagation();
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input:not([type=range]):not([type=checkbox]), textarea, select");
    if (typing && event.key !== "Escape") return;
    if (event.target.matches("button") && (event.key === "Enter" || event.key === " ")) return;
    if (typing) root.focus();
    else if (!gone && handlers.some((handler) => handler(event))) event.preventDefault();
  });

  const parts = {
    root,
    model,
    request,
    showError,
    keys: (handler) => handlers.push(handler),
    close: (action) => closing.push(action),
  };
  // Requests show their own errors; nothing else handles them.
  Promise.resolve(build(parts)).catch(showError);
  root.prepend(alarm);
  return () => {
    model.off("msg:custom", onMessage);
    model.off("comm_live_update", disconnected);
    model.off("comm:close", disconnect);
    kernel?.statusChanged.disconnect(status);
    kernel?.disposed.disconnect(disconnect);
    closing.splice(0).forEach((action) => action());
  };
}
