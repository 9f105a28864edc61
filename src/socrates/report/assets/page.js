"use strict";

const FIRST_CARDS = 12;
const page = { data: null, setting: 0, reading: "answer", hidden: new Set(), epoch: 0, epochs: [], all: false, timer: null };
// The method that is the reference, the one that is pointed at, and the one that is highlighted.
const chosen = { reference: null, pointed: null, lit: null };
const order = { column: null, descending: false };
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const setting = () => page.data.settings[page.setting];
const read = (choices) => choices[page.reading] ?? choices.answer;
const printing = window.matchMedia("print");
const darkSystem = window.matchMedia("(prefers-color-scheme: dark)");

// What the reader chooses.

function showSetting() {
  stopPlaying();
  page.hidden = new Set(setting().late);
  page.all = false;
  Object.assign(chosen, { reference: null, pointed: null, lit: null });
  byId("setting").value = String(page.setting);
  mount();
  showPressed();
  startSlider();
  showReading();
}

function showReading() {
  const known = setting().unknown;
  for (const input of all("#reading input")) input.checked = input.value === page.reading;
  if (known) byId("explain").textContent = page.data.readings[page.reading];
  if (byId("paths-reading")) byId("paths-reading").hidden = !known || page.reading === "answer";
  for (const node of all("[data-table]")) {
    node.innerHTML = read(setting().tables[node.dataset.table]);
  }
  for (const node of all(".chart")) {
    node.closest("figure").querySelector(".caption").textContent = read(setting().charts[node.dataset.chart].captions) ?? "";
  }
  sortRows();
  showCards();
  refresh();
}

function showCards() {
  const cards = all("figure[data-method]").filter((card) => {
    card.hidden = page.hidden.has(Number(card.dataset.method));
    return !card.hidden;
  });
  if (!page.all) for (const card of cards.slice(FIRST_CARDS)) card.hidden = true;
  if (!byId("reliability-charts")) return;
  byId("reliability-charts").dataset.few = String(cards.length <= 3);
  byId("show-all").hidden = page.all || cards.length <= FIRST_CARDS;
  byId("show-all").textContent = `Show all ${cards.length}`;
}

function toggle(method) {
  if (!page.hidden.delete(method)) page.hidden.add(method);
  showPressed();
  showCards();
  refresh();
}

function showPressed() {
  for (const button of all(".legend [data-method]")) {
    button.setAttribute("aria-pressed", String(!page.hidden.has(Number(button.dataset.method))));
  }
  for (const button of all("[data-everyone]")) button.hidden = page.hidden.size === 0;
}

function showEveryone() {
  page.hidden.clear();
  showPressed();
  showCards();
  refresh();
}

// A method that is pointed at, or chosen as the reference, is highlighted in every chart. The style
// sheet shows the differences to it.

function compareWith(method) {
  chosen.reference = chosen.reference === method ? null : method;
  for (const row of all("#screen tr[data-method]")) {
    const isReference = Number(row.dataset.method) === chosen.reference;
    row.classList.toggle("reference", isReference);
    row.querySelector("button")?.setAttribute("aria-pressed", String(isReference));
  }
  highlight();
}

function highlight() {
  const method = chosen.pointed ?? chosen.reference;
  if (method === chosen.lit) return;
  chosen.lit = method;
  for (const node of all("#screen tr[data-method], figure[data-method], .legend button[data-method]")) {
    node.classList.toggle("lit", Number(node.dataset.method) === method);
  }
  refresh();
}

function pointAt(target) {
  const row = target.closest?.("#screen tr[data-method]") ?? null;
  chosen.pointed = row === null ? null : Number(row.dataset.method);
  highlight();
}

function sortBy(column) {
  order.descending = order.column === column && !order.descending;
  order.column = column;
  sortRows();
}

function sortRows() {
  const table = document.querySelector("#overview-table table");
  if (order.column === null || table === null) return;
  const value = (row) => {
    const cell = row.children[order.column];
    if (cell.classList.contains("text") || cell.tagName === "TH") return cell.textContent;
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  const sign = order.descending ? -1 : 1;
  const rows = all("tbody tr", table).sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y);
  });
  table.tBodies[0].append(...rows);
  all("thead th", table).forEach((head, column) => {
    if (column !== order.column) head.removeAttribute("aria-sort");
    else head.setAttribute("aria-sort", order.descending ? "descending" : "ascending");
  });
}

function startSlider() {
  const slider = byId("epoch");
  if (slider === null) return;
  const points = setting().charts.paths.figures.answer.data.flatMap((trace) => trace.customdata);
  page.epochs = [...new Set(points.map(([epoch]) => epoch))].sort((a, b) => a - b);
  slider.max = String(page.epochs.length - 1);
  slider.value = slider.max;
  showEpoch();
}

function showEpoch() {
  page.epoch = page.epochs[Number(byId("epoch").value)] ?? 0;
  byId("epoch-shown").textContent = `epoch ${page.epoch}`;
  byId("epoch").setAttribute("aria-valuetext", `epoch ${page.epoch}`);
  refresh(all("[data-chart=paths]"));
}

function stopPlaying() {
  window.clearInterval(page.timer);
  page.timer = null;
  if (byId("play")) byId("play").textContent = "Play";
}

function play() {
  if (page.timer !== null) return stopPlaying();
  const slider = byId("epoch");
  if (slider.value === slider.max) slider.value = "0";
  byId("play").textContent = "Pause";
  page.timer = window.setInterval(() => {
    if (slider.value === slider.max) return stopPlaying();
    slider.value = String(Number(slider.value) + 1);
    return showEpoch();
  }, Math.max(60, 4000 / (Number(slider.max) + 1)));
  return showEpoch();
}

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it and press Ctrl+C";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

function listen() {
  const changed = {
    setting: (value) => {
      page.setting = Number(value);
      unmount();
      byId("screen").innerHTML = setting().screen;
      byId("content").innerHTML = setting().html;
      showSetting();
    },
    reading: (value) => {
      page.reading = value;
      showReading();
    },
    log: () => refresh(),
  };
  document.addEventListener("change", ({ target }) => changed[target.id || target.name]?.(target.value));
  for (const event of ["pointerover", "focusin"]) document.addEventListener(event, ({ target }) => pointAt(target));
  document.addEventListener("input", ({ target }) => {
    if (target.id !== "epoch") return;
    stopPlaying();
    showEpoch();
  });
  document.addEventListener("click", ({ target }) => {
    const row = target.closest("#screen tr[data-method]:has(button)");
    if (row !== null) return compareWith(Number(row.dataset.method));
    const button = target.closest("button");
    if (button === null) return;
    if (button.id === "play") play();
    else if (button.id === "show-all") {
      page.all = true;
      showCards();
      refresh();
    } else if (button.dataset.copy !== undefined) copy(button);
    else if (button.dataset.everyone !== undefined) showEveryone();
    else if (button.dataset.method !== undefined) toggle(Number(button.dataset.method));
    else if (button.closest("th") !== null) sortBy([...button.closest("tr").children].indexOf(button.closest("th")));
  });
}

// Theme and print.

function applyTheme() {
  const chosen = document.querySelector("#theme input:checked").value;
  const theme = printing.matches || root.dataset.printing !== undefined ? "light" : chosen;
  root.dataset.shade = theme === "dark" || (theme === "auto" && darkSystem.matches) ? "dark" : "light";
}

function retheme() {
  applyTheme();
  if (page.data === null) return;
  if (root.dataset.printing === undefined) refresh();
  else refreshAll();
}

function beforePrint() {
  root.dataset.printing = "";
  for (const fold of all("details.fold:not([open])")) {
    fold.open = true;
    fold.dataset.opened = "";
  }
  retheme();
}

function afterPrint() {
  delete root.dataset.printing;
  for (const fold of all("details[data-opened]")) {
    fold.open = false;
    delete fold.dataset.opened;
  }
  retheme();
}

function startTheme() {
  const known = ["light", "dark"].includes(root.dataset.theme) ? root.dataset.theme : "auto";
  document.querySelector(`#theme input[value="${known}"]`).checked = true;
  applyTheme();
  byId("theme").addEventListener("change", (event) => {
    try {
      window.localStorage.setItem("socrates-theme", event.target.value);
    } catch {
      // Some browsers refuse storage to files; the choice then lasts as long as the page.
    }
    retheme();
  });
  darkSystem.addEventListener("change", retheme);
  printing.addEventListener("change", (event) => (event.matches ? beforePrint() : afterPrint()));
  window.addEventListener("beforeprint", beforePrint);
  window.addEventListener("afterprint", afterPrint);
}

async function inflate(id) {
  const packed = byId(id);
  const bytes = Uint8Array.from(atob(packed.textContent.trim()), (letter) => letter.charCodeAt(0));
  packed.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

async function start() {
  page.data = JSON.parse(await inflate("packed-data"));
  listen();
  showSetting();
  root.dataset.ready = "data";
  const script = document.createElement("script");
  script.textContent = await inflate("packed-plotly");
  document.head.append(script);
  root.dataset.ready = "charts";
  if (printing.matches) beforePrint();
  else refresh();
}

startTheme();
// Two frames after the document is there, the heading and the table have been painted.
document.addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(start))));
