// <line-chart data-series='[["name", [[seconds, value], ...]], ...]' data-unit="/s">: lines on a canvas, from zero up.
const COLOURS = ["--accent", "--second", "--third"];
const LEFT = 72, RIGHT = 14, TOP = 14, BOTTOM = 24;

class LineChart extends HTMLElement {
  static observedAttributes = ["data-series"];

  connectedCallback() {
    this.canvas = document.createElement("canvas");
    this.replaceChildren(this.canvas);
    this.pointer = null;
    this.addEventListener("pointermove", (event) => { this.pointer = event.offsetX; this.soon(); });
    this.addEventListener("pointerleave", () => { this.pointer = null; this.soon(); });
    this.watcher = new ResizeObserver(() => this.soon());
    this.watcher.observe(this);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.onscheme = () => this.soon();
    this.scheme.addEventListener("change", this.onscheme);
    this.read();
  }

  disconnectedCallback() { this.watcher.disconnect(); this.scheme.removeEventListener("change", this.onscheme); }
  attributeChangedCallback() { if (this.canvas) this.read(); }

  read() {
    this.series = JSON.parse(this.dataset.series || "[]");
    this.soon();
  }

  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this;
    if (!width) return;
    const scale = devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(this);
    const colour = (name) => {
      // light-dark() in a custom property is resolved only where a property uses it.
      this.style.color = `var(${name})`;
      const found = getComputedStyle(this).color;
      this.style.color = "";
      return found;
    };
    const soft = colour("--soft"), line = colour("--line"), ink = colour("--ink"), card = colour("--card");
    pen.font = `12px ${style.fontFamily}`;
    const points = this.series.flatMap(([, each]) => each);
    if (points.length < 2) {
      pen.fillStyle = soft;
      pen.textAlign = "center";
      pen.fillText("collecting…", width / 2, height / 2);
      return;
    }
    const begin = Math.min(...points.map(([at]) => at)), end = Math.max(...points.map(([at]) => at));
    const top = nice(Math.max(...points.map(([, value]) => value)), this.dataset.unit === "B/s" ? 1024 : 1);
    const x = (at) => LEFT + (at - begin) / Math.max(end - begin, 1e-9) * (width - LEFT - RIGHT);
    const y = (value) => height - BOTTOM - value / top * (height - TOP - BOTTOM);
    pen.textBaseline = "middle";
    for (const share of [0, 0.5, 1]) {
      pen.strokeStyle = line;
      pen.beginPath(); pen.moveTo(LEFT, y(top * share)); pen.lineTo(width - RIGHT, y(top * share)); pen.stroke();
      pen.fillStyle = soft; pen.textAlign = "right";
      pen.fillText(label(top * share, this.dataset.unit), LEFT - 8, y(top * share));
    }
    pen.textAlign = "left"; pen.fillText(clock(begin), LEFT, height - 10);
    pen.textAlign = "right"; pen.fillText(clock(end), width - RIGHT, height - 10);
    this.series.forEach(([, each], i) => {
      if (each.length < 2) return;
      pen.strokeStyle = colour(COLOURS[i % COLOURS.length]);
      pen.lineWidth = 1.75; pen.lineJoin = "round";
      pen.beginPath();
      each.forEach(([at, value], j) => j ? pen.lineTo(x(at), y(value)) : pen.moveTo(x(at), y(value)));
      pen.stroke();
      if (this.series.length === 1) {
        pen.lineTo(x(each.at(-1)[0]), y(0)); pen.lineTo(x(each[0][0]), y(0));
        pen.globalAlpha = 0.09; pen.fillStyle = pen.strokeStyle; pen.fill(); pen.globalAlpha = 1;
      }
    });
    if (this.pointer !== null) this.tell(pen, { x, y, begin, end, width, height, ink, soft, card });
  }

  tell(pen, { x, y, begin, end, width, height, ink, soft, card }) {
    const at = begin + (this.pointer - LEFT) / (width - LEFT - RIGHT) * (end - begin);
    const near = this.series.filter(([, each]) => each.length).map(([name, each]) => [name, each.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a)]);
    if (!near.length) return;
    const moment = near[0][1][0];
    const text = `${clock(moment)}  ` + near.map(([name, [, value]]) => `${this.series.length > 1 ? `${name} ` : ""}${label(value, this.dataset.unit)}`).join("   ");
    pen.strokeStyle = soft;
    pen.beginPath(); pen.moveTo(x(moment), TOP); pen.lineTo(x(moment), height - BOTTOM); pen.stroke();
    for (const [, [when, value]] of near) { pen.fillStyle = ink; pen.beginPath(); pen.arc(x(when), y(value), 3, 0, 7); pen.fill(); }
    const wide = pen.measureText(text).width + 16;
    const left = Math.min(Math.max(x(moment) - wide / 2, 4), width - wide - 4);
    pen.fillStyle = ink; pen.fillRect(left, 4, wide, 20);
    pen.fillStyle = card; pen.textAlign = "left"; pen.fillText(text, left + 8, 15);
  }
}

function nice(value, step = 1) { // round in the unit that the label has: bytes go in steps of 1024
  if (value <= 0) return 1;
  if (step > 1 && value >= step) return nice(value / step, step) * step;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].find((step) => step * power >= value) * power;
}

function label(value, unit = "") {
  if (unit === "B/s") {
    let step = 0;
    while (value >= 1023.5 && step < 4) { value /= 1024; step += 1; }
    return `${short(value)} ${["B", "KB", "MB", "GB", "TB"][step]}/s`;
  }
  if (unit === "ms") return value >= 1000 ? `${short(value / 1000)} s` : `${Math.round(value)} ms`;
  for (const [limit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (value >= limit) return `${short(value / limit)}${letter}${unit}`;
  return `${short(value)}${unit}`;
}

function short(value) { return value >= 100 || value === Math.round(value) ? Math.round(value).toString() : value.toFixed(1); }
function clock(seconds) { return new Date(seconds * 1000).toISOString().slice(11, 19); }

customElements.define("line-chart", LineChart);
