// What pages do at hand: copy a command, show what a pod in a map has to do with others, keep relative times up to date. Pages are
// complete without it, and the playground has it as well.
"use strict";
(() => {
  const closest = (event, selector) => event.target.closest?.(selector);

  document.addEventListener("click", async (event) => {
    const button = closest(event, "button[data-copy]");
    if (!button) return;
    const code = document.getElementById(button.dataset.copy);
    const done = (text) => { button.textContent = text; };
    try {
      await navigator.clipboard.writeText(code.innerText);
      done("Copied");
    } catch {
      getSelection().selectAllChildren(code);
      done("Selected");
    }
  });

  // Below the pointer or with the focus: its node's pods, its workload, and the workloads that its rules are about.
  let shown = null;
  function relate(pod) {
    if (pod === shown) return;
    const map = (pod ?? shown)?.closest(".map");
    shown = pod;
    if (!map || map.dataset.selected) return;
    const mark = (name, isMarked) => map.querySelectorAll(".pod").forEach((other) => other.classList.toggle(name, isMarked(other)));
    const inspector = document.getElementById("inspector");
    const group = pod?.dataset.group;
    const about = group && document.querySelector(`[data-about="${group}"]`);
    const partners = new Set((about?.dataset.partners ?? "").split(" ").filter(Boolean));
    const cell = pod?.closest(".cell");
    map.classList.toggle("focused", Boolean(pod));
    mark("same", (other) => pod && (other === pod || (group && other.dataset.group === group)));
    mark("partner", (other) => pod && partners.has(other.dataset.group) && other.dataset.group !== group);
    mark("neighbour", (other) => Boolean(cell) && cell.contains(other));
    if (!inspector) return;
    inspector.querySelector(".now")?.remove();
    inspector.classList.toggle("has-now", Boolean(pod));
    if (!pod) return;
    const now = document.createElement("div");
    now.className = "now";
    const name = document.createElement("h2");
    name.textContent = pod.getAttribute("aria-label") ?? pod.title;
    const node = document.createElement("p");
    node.textContent = cell ? `${cell.firstElementChild.title.split("; ")[0]}; ${cell.querySelectorAll(".pod:not(.ghost)").length} pods there` : "Without a node";
    now.append(name, node, ...(about ? [about.content.cloneNode(true)] : []));
    inspector.prepend(now);
  }
  document.addEventListener("pointerover", (event) => relate(closest(event, ".map .pod")));
  document.addEventListener("focusin", (event) => relate(closest(event, ".map .pod")));

  // Arrows go through a map: to the right and left through its links, down and up from cell to cell.
  document.addEventListener("keydown", (event) => {
    const link = closest(event, ".map a");
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!link || !step || event.ctrlKey || event.altKey || event.metaKey) return;
    const map = link.closest(".map");
    const byCell = event.key === "ArrowDown" || event.key === "ArrowUp";
    const links = [...map.querySelectorAll(byCell ? ".cell > a, a.tile" : "a")];
    const from = byCell ? link.closest(".cell")?.querySelector(":scope > a") ?? link : link;
    const next = links[links.indexOf(from) + step];
    if (!next) return;
    next.focus();
    event.preventDefault();
  });

  // A form whose choice changes the page asks for it at once.
  document.addEventListener("change", (event) => closest(event, "select[data-go]")?.form.requestSubmit());

  const length = (seconds) => seconds < 120 ? `${seconds} s` : seconds < 7200 ? `${Math.floor(seconds / 60)} m`
    : seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
  setInterval(() => {
    for (const time of document.querySelectorAll("time[data-ticks]")) {
      const seconds = Math.round((Date.now() - Date.parse(time.dateTime)) / 1000);
      time.textContent = seconds > 0 ? `${length(seconds)} ago` : seconds < 0 ? `in ${length(-seconds)}` : "now";
    }
  }, 5000);
})();
