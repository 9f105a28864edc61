"use strict";

const page = { data: null, setting: 0, reading: "answer", hidden: new Set(), epoch: null, all: false, timer: null };
const byId = (id) => document.getElementById(id);
const setting = () => page.data.settings[page.setting];
const printing = window.matchMedia("print");
const darkSystem = window.matchMedia("(prefers-color-scheme: dark)");

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

async function inflate(id) {
  const packed = byId(id);
  const bytes = Uint8Array.from(atob(packed.textContent.trim()), (letter) => letter.charCodeAt(0));
  packed.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function chosenTheme() {
  return document.querySelector("#theme input:checked").value;
}

function applyTheme() {
  const theme = printing.matches || document.documentElement.dataset.printing !== undefined ? "light" : chosenTheme();
  const dark = theme === "dark" || (theme === "auto" && darkSystem.matches);
  document.documentElement.dataset.shade = dark ? "dark" : "light";
}

function remember(theme) {
  try {
    window.localStorage.setItem("socrates-theme", theme);
  } catch {
    // Some browsers refuse storage to files; the choice then lasts as long as the page.
  }
}

function recall() {
  const theme = document.documentElement.dataset.theme;
  document.querySelector(`#theme input[value="${["light", "dark"].includes(theme) ? theme : "auto"}"]`).checked = true;
}

function showReading() {
  const known = setting().methods.some((method) => method.unknown);
  for (const input of document.querySelectorAll("#reading input")) {
    input.disabled = !known;
    input.checked = input.value === page.reading;
  }
  const chosen = page.data.readings.find((reading) => reading.key === page.reading);
  byId("explain").textContent = known ? chosen.explain : "No method here has an unknown class, so there is one reading.";
  byId("paths-reading").hidden = !known || page.reading === "answer";
}

function showSetting() {
  stopPlaying();
  page.hidden.clear();
  page.all = false;
  byId("setting").value = String(page.setting);
  byId("setting-title").textContent = setting().title;
  startSlider();
  showReading();
  drawLegends();
  drawPanels();
  drawReference();
  drawRuns();
  followReading();
}

function followReading() {
  drawOverview();
  drawMultiples();
  drawScaling();
  drawDifferences();
  refresh();
}

function startSlider() {
  const slider = byId("epoch");
  const epochs = setting().pareto.epochs;
  slider.max = String(Math.max(epochs.length - 1, 0));
  slider.value = slider.max;
  showEpoch();
}

function showEpoch() {
  const epochs = setting().pareto.epochs;
  page.epoch = epochs[Number(byId("epoch").value)] ?? 0;
  byId("epoch-shown").textContent = `epoch ${page.epoch}`;
  byId("epoch").setAttribute("aria-valuetext", `epoch ${page.epoch}`);
  refresh([document.querySelector('[data-chart="paths"]')]);
}

function stopPlaying() {
  window.clearInterval(page.timer);
  page.timer = null;
  byId("play").textContent = "Play";
}

function play() {
  if (page.timer !== null) return stopPlaying();
  const slider = byId("epoch");
  if (slider.value === slider.max) slider.value = "0";
  byId("play").textContent = "Pause";
  const step = Math.max(60, 4000 / (Number(slider.max) + 1));
  page.timer = window.setInterval(() => {
    if (slider.value === slider.max) return stopPlaying();
    slider.value = String(Number(slider.value) + 1);
    showEpoch();
  }, step);
  return showEpoch();
}

function listen() {
  byId("setting").addEventListener("change", (event) => {
    page.setting = Number(event.target.value);
    showSetting();
  });
  byId("reading").addEventListener("change", (event) => {
    page.reading = event.target.value;
    showReading();
    followReading();
  });
  byId("epoch").addEventListener("input", () => {
    stopPlaying();
    showEpoch();
  });
  byId("play").addEventListener("click", play);
  byId("log").addEventListener("change", () => refresh());
  byId("reference").addEventListener("change", drawDifferences);
  byId("show-all").addEventListener("click", () => {
    page.all = true;
    drawMultiples();
  });
}

function listenToTheme() {
  byId("theme").addEventListener("change", () => {
    remember(chosenTheme());
    retheme();
  });
  darkSystem.addEventListener("change", retheme);
  printing.addEventListener("change", (event) => (event.matches ? beforePrint() : afterPrint()));
  window.addEventListener("beforeprint", beforePrint);
  window.addEventListener("afterprint", afterPrint);
}

function recolour() {
  applyTheme();
  if (page.data === null) return;
  drawLegends();
}

function retheme() {
  recolour();
  if (document.documentElement.dataset.printing === undefined) refresh();
  else refreshAll();
}

function beforePrint() {
  document.documentElement.dataset.printing = "";
  recolour();
  refreshAll();
}

function afterPrint() {
  delete document.documentElement.dataset.printing;
  retheme();
}

async function start() {
  page.data = JSON.parse(await inflate("packed-data"));
  if (page.data.settings.length === 0) return;
  listen();
  showSetting();
  document.documentElement.dataset.ready = "data";
  const script = document.createElement("script");
  script.textContent = await inflate("packed-plotly");
  document.head.append(script);
  document.documentElement.dataset.ready = "charts";
  if (printing.matches) beforePrint();
  else refresh();
}

recall();
applyTheme();
listenToTheme();
// Two frames after the document is there, the heading and the table have been painted.
document.addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(start))));
