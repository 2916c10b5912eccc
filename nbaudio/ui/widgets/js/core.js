// What every widget's front end shares: elements, questions to Python, keys, errors.
//
// The files of this folder are plain pieces, no modules: `skin.py` puts those that a widget needs one behind the other, and the
// last lines export its `render`. Texts of segments reach the page by textContent only.

const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

const PATIENCE_MS = 4000;
const BUSY = "no answer yet: the kernel is busy or out of reach; nothing is kept before it answers";
const GONE = "kernel gone: run this cell again";
const ENDED = ["restarting", "autorestarting", "terminating", "dead"];
// Whether the server is on this machine: see `_PACKET_BYTES` of skin.py.
const NEAR = ["localhost", "127.0.0.1", "[::1]"].includes(window.location.hostname);

/** A text with pictures in place of controls, which a page would not show. */
function visible(text) {
  return String(text).replace(CONTROLS, (c) => (c === "\u007f" ? "\u2421" : String.fromCharCode(0x2400 + c.charCodeAt(0))));
}

/** An element: attributes by name, `text` as its text, `on` for listeners, children behind. */
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

/** A button that never takes the keys away from the widget. */
function button(label, title, action) {
  return make("button", { type: "button", text: label, title, "aria-label": title, on: { click: action } });
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** Hours as people say them: minutes where there is less than two hours in all. */
function duration(hours, all = hours) {
  return all >= 2 ? `${number(hours, 1)} h` : `${number(60 * hours, 1)} min`;
}

function clock(seconds) {
  const minutes = Math.floor(seconds / 60);
  return `${minutes}:${(seconds - 60 * minutes).toFixed(2).padStart(5, "0")}`;
}

/** Calls of `action` while they come in: only the last, once none has come for `wait` ms. */
function settled(action, wait) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), wait);
  };
}

/**
 * Set up a widget: its root, its questions, its errors, its keys.
 *
 * `build` gets `{ root, ask, on, keys, model }`: `ask(call, arguments)` gives a promise of `{ result, buffers, later }`, `later`
 * one of the buffers that come behind; `on(event, listener)` hears what Python tells of its own accord; `keys(handler)` adds a
 * handler that says whether a key was its own.
 */
function mount({ model, el }, name, build) {
  const view = Math.random().toString(36).slice(2);
  const waiting = new Map();
  const coming = new Map();
  const listeners = new Map();
  const handlers = [];
  const closing = [];
  const kernel = model.widget_manager?.kernel; // JupyterLab and Notebook have it, other front ends may not
  let asked = 0;
  let answered = 0; // the last question that was
  let comm = ""; // the id of the comm, once Python has answered
  let gone = false;

  const alarm = make("div", { class: "nba-alarm", role: "alert", hidden: true });
  const root = make("div", { class: `nba nba-${name}`, tabindex: "0" });
  el.append(root);

  function complain(error) {
    const text = String(error.message ?? error);
    if (gone && !text.includes(GONE)) return;
    alarm.textContent = visible(text);
    alarm.hidden = false;
    delete alarm.dataset.waits;
  }

  /** A promise of the answer; rejected where the kernel ends first, and never settled where it ended before. */
  function ask(call, values = {}) {
    if (gone) return new Promise(() => {});
    const count = ++asked;
    const number = `${view}:${count}`;
    if (!alarm.dataset.waits) alarm.hidden = true;
    setTimeout(() => late(number, count), PATIENCE_MS);
    return new Promise((resolve, reject) => {
      waiting.set(number, { call, resolve, reject });
      try {
        model.send({ call, number, arguments: values, near: NEAR });
      } catch {
        end(); // the comm was closed
      }
    });
  }

  /** Say that an answer is late, and end the widget if the kernel, once it answers anything, has no comm of it. */
  async function late(number, count) {
    if (!waiting.has(number) || answered > count) return;
    complain(kernel ? BUSY : `${BUSY}. If it was restarted, run this cell again`);
    alarm.dataset.waits = true;
    const { content } = (await kernel?.requestCommInfo({ target_name: "jupyter.widget" }).catch(end)) ?? {};
    if (comm && waiting.has(number) && content?.comms && !content.comms[comm]) end();
  }

  /** The kernel is gone, and with it all that this widget could ask for: say so, and let nothing be clicked, typed or heard. */
  function end() {
    if (gone) return;
    gone = true;
    complain(GONE);
    root.classList.add("nba-gone");
    // With no focus in the widget, its keys would go to the notebook.
    if (root.contains(root.getRootNode().activeElement)) root.focus({ preventScroll: true });
    for (const child of root.children) child.inert = child !== alarm;
    closing.splice(0).forEach((action) => action());
    for (const { reject } of waiting.values()) reject(new Error(GONE));
    waiting.clear();
  }

  const disconnected = () => el.closest(".jupyter-widgets-disconnected") && end();
  const status = (_, now) => ENDED.includes(now) && end();
  model.on("comm_live_update", disconnected);
  model.on("comm:close", end);
  kernel?.statusChanged.connect(status);
  kernel?.disposed.connect(end);

  function heard(message, buffers) {
    if (message.event !== undefined) {
      for (const listener of listeners.get(message.event) ?? []) listener(message, buffers);
      return;
    }
    if (message.later) {
      coming.get(message.number)?.(buffers);
      coming.delete(message.number);
      return;
    }
    const answer = waiting.get(message.number);
    if (!answer) return;
    comm = message.comm;
    waiting.delete(message.number);
    answered = Number(message.number.split(":")[1]);
    if (alarm.dataset.waits) {
      delete alarm.dataset.waits;
      alarm.hidden = true;
    }
    if (message.error === undefined) {
      if (alarm.dataset.call === answer.call) alarm.hidden = true; // asked again, and answered
      const later = message.more ? new Promise((resolve) => coming.set(message.number, resolve)) : null;
      answer.resolve({ result: message.result, buffers, later });
    } else {
      const error = new Error(message.error);
      complain(error);
      alarm.dataset.call = answer.call;
      answer.reject(error);
    }
  }
  model.on("msg:custom", heard);

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
    ask,
    complain,
    keys: (handler) => handlers.push(handler),
    on: (event, listener) => listeners.set(event, [...(listeners.get(event) ?? []), listener]),
    close: (action) => closing.push(action),
  };
  // What was asked shows its own errors; nothing else waits for them.
  Promise.resolve(build(parts)).catch(complain);
  root.prepend(alarm);
  return () => {
    model.off("msg:custom", heard);
    model.off("comm_live_update", disconnected);
    model.off("comm:close", end);
    kernel?.statusChanged.disconnect(status);
    kernel?.disposed.disconnect(end);
    closing.splice(0).forEach((action) => action());
  };
}
