// Brings what the server says into the page: cells in place, tables that have other rows, charts, new records.
import { EventStream } from "./stream.js";

const RECORDS_MAX = 500;
let paused = false;
let held = []; // what arrived while the page was paused
let skipped = 0;

export function follow() {
  const page = location.pathname + location.search;
  const csrf = document.querySelector('meta[name="csrf"]').content;
  tailBar();
  let leave;
  const join = () => {
    try {
      const worker = new SharedWorker("/static/worker.js", { type: "module", name: "ottla" });
      worker.port.addEventListener("message", ({ data }) => take(data.name, data.told));
      worker.port.start();
      worker.port.postMessage({ page, csrf });
      leave = () => worker.port.postMessage({});
    } catch { // no shared workers here: a stream of this page's own
      const stream = new EventStream((name, told) => { if (!told.page || told.page === page) take(name, told); });
      stream.add(page, csrf);
      leave = () => stream.remove(page);
    }
  };
  join();
  addEventListener("pagehide", () => leave());
  addEventListener("pageshow", (event) => { if (event.persisted) join(); });
}

function take(name, told) {
  const state = document.getElementById("live-state");
  switch (name) {
    case "away": state.textContent = "console away"; state.className = "away"; break;
    case "reload": location.reload(); break;
    case "gone": gone(told.text); break;
    case "tick": state.textContent = told.trouble ? "cluster away" : "live"; state.className = told.trouble ? "away" : ""; break;
    case "page": if (!paused) update(told); break;
    case "records": records(told); break;
  }
}

function find(key) { return document.querySelector(`[data-k="${CSS.escape(key)}"]`); }

async function update({ cells = {}, blocks = {}, charts = {}, rows = {}, order = [] }) {
  if (order.some((key) => !find(key)) && !document.activeElement.matches("input, select, textarea")) {
    await replaceMain();
    return;
  }
  // Rows that came or went between the page and its first event: the page is asked again, and only these taken.
  const stale = Object.keys(rows).filter((key) => find(key) && find(key).dataset.v !== rows[key]);
  if (stale.length) {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const key of stale) {
      const block = fresh.querySelector(`[data-k="${CSS.escape(key)}"]`);
      if (block) blocks[key] = block.outerHTML;
    }
  }
  for (const [key, html] of Object.entries(blocks)) {
    const block = find(key);
    if (!block || block.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) continue;
    if (block.outerHTML === html) continue;
    const here = block.querySelector(".here")?.dataset.row;
    const open = new Set([...block.querySelectorAll("details[open][data-at]")].map((each) => each.dataset.at));
    const scrolled = block.querySelector(".scroll, .moments")?.scrollTop;
    block.outerHTML = html;
    const fresh = find(key);
    if (here) fresh.querySelector(`[data-row="${CSS.escape(here)}"]`)?.classList.add("here");
    for (const each of fresh.querySelectorAll("details[data-at]")) each.open = open.has(each.dataset.at);
    const scroller = fresh.querySelector(".scroll, .moments");
    if (scroller && scrolled) scroller.scrollTop = scrolled;
  }
  for (const [key, html] of Object.entries(cells)) {
    const cell = find(key);
    if (cell && cell.innerHTML !== html) cell.innerHTML = html;
  }
  for (const [key, data] of Object.entries(charts)) find(key)?.setAttribute("data-series", data);
}

// A part of the page has come or gone: all of it is taken as it is now.
async function replaceMain() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (answer.ok) document.querySelector("main").replaceWith(fresh.querySelector("main"));
}

function gone(text) {
  if (document.getElementById("gone")) return;
  const note = document.createElement("p");
  note.id = "gone";
  note.className = "flash state warn";
  note.setAttribute("role", "alert");
  note.textContent = text;
  document.querySelector("main > header").after(note);
}

function tailBar() {
  const list = document.querySelector("[data-tail]");
  if (!list) return;
  const bar = document.createElement("div");
  bar.className = "tail-bar";
  const button = document.createElement("button");
  button.id = "pause"; button.type = "button"; button.className = "plain"; button.textContent = "Pause";
  const note = document.createElement("span");
  note.id = "tail-note"; note.className = "note"; note.setAttribute("role", "status");
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume" : "Pause";
    if (!paused) { const waiting = held; held = []; for (const html of waiting) show(html); }
    say();
  });
  bar.append(button, note);
  list.before(bar);
}

function records(told) {
  if (told.trouble) { gone(told.trouble); return; }
  if (told.ready) { document.querySelector("[data-tail]")?.setAttribute("data-ready", ""); return; }
  skipped += told.skipped ?? 0;
  if (paused) { held.push(told.html); held = held.slice(-50); } else show(told.html);
  say();
}

function show(html) {
  const list = document.querySelector("[data-tail]");
  if (!list) return;
  list.insertAdjacentHTML("afterbegin", html);
  document.querySelector("[data-empty]")?.setAttribute("hidden", "");
  while (list.children.length > RECORDS_MAX) list.lastElementChild.remove();
}

function say() {
  const note = document.getElementById("tail-note");
  if (!note) return;
  const parts = [];
  if (paused) parts.push(held.length ? "paused, new records wait" : "paused");
  if (skipped) parts.push(`${skipped.toLocaleString("en")} records came too fast to show`);
  note.textContent = parts.join("; ");
}
