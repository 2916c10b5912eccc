// What every widget's front end shares: elements, questions to Python, keys, errors.
//
// The files of this folder are plain pieces, no modules: `skin.py` puts those that a widget needs one behind the other, and the
// last lines export its `render`. Texts of segments reach the page by textContent only.

const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

const PATIENCE_MS = 15000;
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
  let asked = 0;

  const alarm = make("div", { class: "nba-alarm", role: "alert", hidden: true });
  const root = make("div", { class: `nba nba-${name}`, tabindex: "0" });
  el.append(root);

  function complain(error) {
    alarm.textContent = visible(error.message ?? error);
    alarm.hidden = false;
  }

  function ask(call, values = {}) {
    const number = `${view}:${++asked}`;
    alarm.hidden = true;
    setTimeout(() => {
      if (!waiting.has(number)) return;
      complain("no answer yet: the kernel is busy, or it was restarted; then run the cell again");
      alarm.dataset.waits = number;
    }, PATIENCE_MS);
    return new Promise((resolve, reject) => {
      waiting.set(number, { call, resolve, reject });
      model.send({ call, number, arguments: values, near: NEAR });
    });
  }

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
    waiting.delete(message.number);
    if (alarm.dataset.waits === message.number) alarm.hidden = true;
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
    else if (handlers.some((handler) => handler(event))) event.preventDefault();
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
    closing.forEach((action) => action());
  };
}
