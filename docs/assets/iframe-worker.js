// Search from file://: browsers start no worker there, so the theme's search script runs in a hidden frame instead.
// The theme loads this as a polyfill on every page; it does nothing where the page comes from a server.
if (location.protocol === "file:") {
  const asWorker = `
    postMessage = (data) => parent.postMessage(data, "*");
    importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, failed) => {
      const script = Object.assign(document.createElement("script"), { src: url, onload: done, onerror: failed });
      document.body.append(script);
    })), Promise.resolve());`;

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = Object.assign(document.createElement("iframe"), { hidden: true });
      document.body.append(this.frame);
      const page = this.frame.contentWindow;
      addEventListener("message", (event) => {
        if (event.source !== page) return;
        this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      page.document.write(`<!doctype html><body><script>${asWorker}</script><script src="${url}"></script></body>`);
      page.document.close();
      this.loaded = new Promise((done) => page.addEventListener("load", done));
    }

    postMessage(data) {
      const event = () => new MessageEvent("message", { data: structuredClone(data) });
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(event()));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
