// Runs the module: reads files, asks it for pages, and shows them. The fragment of the URL is the path and the query of a page.
"use strict";
(() => {
  const element = (id) => document.getElementById(id);
  const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];
  const ORIGIN = "http://playground";
  let compiled; // the module
  let wasm; // the exports of an instance of it
  let cluster; // name and files of the open cluster

  async function unzipped(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function output() {
    const [at, length] = [wasm.playground_output() >>> 0, wasm.playground_output_length() >>> 0];
    return decoder.decode(new Uint8Array(wasm.memory.buffer, at, length));
  }

  // Calls an export with a text and bytes: its result and its output. The instance is dead after an error.
  function call(name, text, bytes = new Uint8Array()) {
    const head = encoder.encode(text);
    try {
      const at = wasm.playground_input(head.length + bytes.length) >>> 0;
      const input = new Uint8Array(wasm.memory.buffer, at, head.length + bytes.length);
      input.set(head);
      input.set(bytes, head.length);
      return [wasm[name](), output()];
    } catch (error) {
      throw new Error(output() || error.message);
    }
  }

  async function start() {
    wasm = (await WebAssembly.instantiate(compiled, {})).exports;
  }

  function say(problem, status = "") {
    element("problem").textContent = problem;
    element("problem").hidden = !problem;
    element("status").textContent = status;
  }

  // Runs a task; if the module panics, it is started again with the cluster that was open.
  async function guarded(task) {
    try {
      await task();
    } catch (error) {
      await start();
      const before = cluster;
      cluster = undefined;
      if (before) await open(before.name, before.files).catch(start);
      say(`The module stopped and was started again${cluster ? " with the same files" : ""}: ${error.message}`);
      view();
    }
  }

  async function open(name, files) {
    say("", `Reading ${name}.`);
    // Lets the browser show it.
    await new Promise((done) => setTimeout(done, 20));
    cluster = undefined;
    for (const file of files) {
      let bytes = new Uint8Array(await file.arrayBuffer());
      if (bytes[0] === 0x1f && bytes[1] === 0x8b) bytes = await unzipped(bytes);
      const [ok, message] = call("playground_add", `${file.name.replaceAll("\n", " ")}\n`, bytes);
      if (!ok) return say(message);
    }
    const [ok, message] = call("playground_open", name);
    if (!ok) return say(message);
    cluster = { name, files };
    say("");
  }

  const load = (name, files) => guarded(async () => {
    await open(name, files);
    if (cluster && location.hash.length < 2) location.hash = "#/";
    else await show();
  });

  // Shows what the fragment names; `form` has the fields of a form that is sent.
  async function show(form) {
    const [path, query] = location.hash.slice(1).split(/\?(.*)/s);
    const isOpen = Boolean(cluster && path);
    if (isOpen) {
      const lines = [path, query ?? ""].concat(form ?? []);
      const [, text] = call("playground_respond", lines.join("\n"));
      draw(text.slice(text.indexOf("\n") + 1), path);
    }
    view(isOpen);
  }

  function view(isOpen = false) {
    element("page").hidden = !isOpen;
    element("start").hidden = isOpen;
    element("back").hidden = !cluster;
    if (!isOpen) document.title = "Berth playground";
  }

  function draw(text, path) {
    const page = new DOMParser().parseFromString(text, "text/html");
    for (const link of page.querySelectorAll("a[href]")) {
      const to = new URL(link.getAttribute("href"), ORIGIN + path);
      if (to.origin === ORIGIN && !to.hash) link.setAttribute("href", `#${to.pathname}${to.search}`);
    }
    const other = page.createElement("a");
    other.href = "#";
    other.textContent = "Other cluster";
    page.querySelector("header")?.append(other);
    document.title = page.title;
    element("page").replaceChildren(...page.body.childNodes);
    element("page").querySelector("main")?.focus();
    scrollTo(0, 0);
  }

  element("page").addEventListener("submit", (event) => {
    event.preventDefault();
    const form = event.target;
    const [path] = location.hash.slice(1).split("?");
    const to = new URL(form.getAttribute("action") ?? path, ORIGIN + path);
    const fields = new URLSearchParams(new FormData(form, event.submitter)).toString();
    if (form.method !== "post") {
      location.hash = `#${to.pathname}?${fields}`;
      return;
    }
    history.pushState(null, "", `#${to.pathname}${to.search}`);
    guarded(() => show(fields));
  });
  // A link into the page itself, such as the one that skips the navigation, is not a page.
  element("page").addEventListener("click", (event) => {
    const target = event.target.closest?.("a[href^='#']")?.getAttribute("href").slice(1);
    if (!target || target.startsWith("/")) return;
    event.preventDefault();
    element(target)?.focus();
    element(target)?.scrollIntoView();
  });
  element("load").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = element("text").value;
    const files = [...element("files").files];
    if (text.trim()) files.push(new File([text], "pasted text"));
    if (files.length === 0) return say("Choose a file, or paste a text.");
    load(files.map((file) => file.name).join(", "), files);
  });
  element("example").addEventListener("click", () => {
    load("example", [new File([BERTH_EXAMPLE], "example")]);
  });
  addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", () => document.body.classList.remove("dropping"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    const files = [...event.dataTransfer.files];
    if (files.length > 0 && wasm) load(files.map((file) => file.name).join(", "), files);
  });
  addEventListener("hashchange", () => guarded(async () => {
    say("");
    await show();
  }));

  (async () => {
    const bytes = await unzipped(Uint8Array.from(atob(BERTH_MODULE), (character) => character.charCodeAt(0)));
    compiled = await WebAssembly.compile(bytes);
    await start();
    const sheet = new CSSStyleSheet();
    const [, text] = call("playground_respond", "/assets/console.css\n");
    sheet.replaceSync(text.slice(text.indexOf("\n") + 1));
    document.adoptedStyleSheets = [sheet];
    element("open").disabled = element("example").disabled = false;
    say("");
  })().catch((error) => say(`The module cannot be loaded: ${error.message}`));
})();
