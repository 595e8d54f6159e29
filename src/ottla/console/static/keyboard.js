// `/` filter, `g t` go to, `j` and `k` rows, Enter opens, `?` helps. Never while somebody types.
const WAIT_MS = 1500;

export function keyboard() {
  let begun = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.("input, textarea, select, dialog");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (begun && Date.now() - begun < WAIT_MS) {
      begun = 0;
      const link = document.querySelector(`.side nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    begun = 0;
    switch (event.key) {
      case "g": begun = Date.now(); break;
      case "/": {
        const box = document.querySelector('input[type="search"], input[name="q"]');
        if (box) { event.preventDefault(); box.focus(); box.select(); }
        break;
      }
      case "j": move(1); break;
      case "k": move(-1); break;
      case "Enter": open(event); break;
      case "p": document.getElementById("pause")?.click(); break;
      case "?": document.getElementById("help").showModal(); break;
    }
  });
}

function rows() { return [...document.querySelectorAll("main tbody tr[data-row], main .record")]; }

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("here"));
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step))];
  all.forEach((row) => row.classList.toggle("here", row === next));
  next.scrollIntoView({ block: "nearest" });
}

function open(event) {
  const row = document.querySelector("main .here");
  if (!row || event.target.closest?.("a, button, summary")) return;
  if (row.matches("details")) row.open = !row.open;
  else row.querySelector("a")?.click();
}
