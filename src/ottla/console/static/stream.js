// One connection to the console's events for all pages of a browser, and which pages it follows.
export class EventStream {
  constructor(tell) {
    this.tell = tell;
    this.pages = new Map(); // page -> how many documents show it
    this.id = null;
    this.csrf = null;
    this.source = null;
    this.last = 0;
  }

  add(page, csrf) {
    this.csrf = csrf;
    this.pages.set(page, (this.pages.get(page) ?? 0) + 1);
    if (this.source) this.#subscribe();
    else this.#open();
  }

  remove(page) {
    const left = (this.pages.get(page) ?? 1) - 1;
    if (left > 0) this.pages.set(page, left);
    else this.pages.delete(page);
    if (this.pages.size) this.#subscribe();
    else { this.source?.close(); this.source = this.id = null; }
  }

  #open() {
    const source = this.source = new EventSource("/events");
    source.addEventListener("hello", (event) => { this.id = JSON.parse(event.data).id; this.#subscribe(); });
    for (const name of ["page", "records", "gone", "tick", "reload"])
      source.addEventListener(name, (event) => this.tell(name, JSON.parse(event.data)));
    source.addEventListener("error", () => { this.id = null; this.tell("away", {}); });
  }

  async #subscribe() {
    if (!this.id) return;
    try {
      await fetch(`/events/${this.id}`, {
        method: "POST", headers: { "x-csrf": this.csrf, "content-type": "text/plain" }, body: [...this.pages.keys()].join("\n"),
      });
    } catch { this.tell("away", {}); }
  }
}
