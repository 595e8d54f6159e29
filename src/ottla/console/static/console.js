// Starts what a page needs: live numbers, charts, keyboard. Everything else works without it.
import "./chart.js";
import { follow } from "./live.js";
import { keyboard } from "./keyboard.js";

keyboard();
if (document.body.dataset.live !== undefined) follow();

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});
