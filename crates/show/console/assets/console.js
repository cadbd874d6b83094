// Makes a page follow the cluster: after a change, the page is fetched again and the differences are applied. Elements that remain
// keep their focus, scroll position, open details and what was typed. A page is complete without this script.
"use strict";
(() => {
  const PARTS = ["header", "main"];

  // What an element of a list is about: rows and items begin with a link.
  const subject = (node) => node.nodeType === Node.ELEMENT_NODE
    && (node.id || (node.matches("a") ? node : node.querySelector(":scope > a, :scope > th > a"))?.getAttribute("href"));

  // The children with their keys, which are unique: several rows may be about the same object. None for other children.
  function keyed(parent) {
    const counts = new Map();
    return [...parent.childNodes].map((child) => {
      const about = subject(child);
      if (!about) return [undefined, child];
      counts.set(about, (counts.get(about) ?? 0) + 1);
      return [`${counts.get(about)} ${about}`, child];
    });
  }

  // Removes a node, and returns the one after it.
  function without(node) {
    const after = node.nextSibling;
    node.remove();
    return after;
  }

  function update(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if (old.isEqualNode(fresh)) return;
    for (const { name } of [...old.attributes]) {
      // The reader opens and closes details.
      if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    const [olds, news] = [keyed(old), keyed(fresh)];
    const [keys, before] = [new Map(olds.map(([key, child]) => [child, key])), new Map(olds)];
    const remaining = new Set(news.map(([key]) => key));
    let next = old.firstChild;
    for (const [key, child] of news) {
      while (next && keys.get(next) && !remaining.has(keys.get(next))) next = without(next);
      const found = key ? before.get(key) : next && !keys.get(next) ? next : undefined;
      if (found?.nodeName !== child.nodeName) {
        old.insertBefore(child, next);
        continue;
      }
      if (found === next) next = next.nextSibling;
      else old.insertBefore(found, next);
      update(found, child);
    }
    while (next) next = without(next);
  }

  function show(text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    const focused = document.activeElement;
    document.title = page.title;
    for (const part of PARTS) update(document.querySelector(part), page.querySelector(part));
    if (focused !== document.activeElement) {
      (focused.isConnected ? focused : document.querySelector("main")).focus({ preventScroll: true });
    }
  }

  const stale = document.createElement("p");
  stale.className = "stale";
  stale.setAttribute("role", "status");
  document.body.append(stale);
  const say = (text) => { if (stale.textContent !== text) stale.textContent = text; };

  let isWanted = false; // whether the cluster changed since the last fetch
  let isFetching = false;
  let tag = ""; // of the answer that is shown
  async function follow() {
    // The answer to a form has no URL.
    if (isFetching || !isWanted || document.hidden || "still" in document.querySelector("main").dataset) return;
    [isWanted, isFetching] = [false, true];
    try {
      const response = await fetch(location.href, { credentials: "same-origin", headers: tag ? { "If-None-Match": tag } : {} });
      // The page may not have changed, and its object may be gone.
      const isUsable = response.ok || response.status === 304 || response.status === 404;
      if (isUsable && response.status !== 304) {
        show(await response.text());
        tag = response.headers.get("ETag") ?? "";
      }
      say(isUsable ? "" : `Not up to date: the server answers ${response.status}. Reload the page.`);
    } catch {
      say("Not up to date: the server cannot be reached.");
    }
    isFetching = false;
    follow();
  }

  let events;
  function connect() {
    events?.close();
    // A browser has few connections to a server: pages that nobody sees leave them to others. The first event tells what they missed.
    if (document.hidden) return;
    events = new EventSource("/events");
    events.addEventListener("message", () => {
      isWanted = true;
      follow();
    });
    events.addEventListener("error", () => {
      // A cluster from a file does not change: the server ended the events.
      if (events.readyState === EventSource.CONNECTING) say("Not up to date: the server cannot be reached.");
    });
  }
  connect();
  document.addEventListener("visibilitychange", connect);
})();
