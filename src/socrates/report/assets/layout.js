"use strict";

const SVG = "http://www.w3.org/2000/svg";
const OUTLINES = {
  circle: "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", square: "M-3.5,-3.5h7v7h-7z", diamond: "M0,-4.8L4.8,0L0,4.8L-4.8,0z",
  "triangle-up": "M0,-4.5L4.6,3.6H-4.6z", "triangle-down": "M0,4.5L4.6,-3.6H-4.6z",
  cross: "M-1.6,-4.5h3.2v2.9h2.9v3.2h-2.9v2.9h-3.2v-2.9h-2.9v-3.2h2.9z",
  x: "M-4.4,-2.2L-2.2,-4.4L0,-2.2L2.2,-4.4L4.4,-2.2L2.2,0L4.4,2.2L2.2,4.4L0,2.2L-2.2,4.4L-4.4,2.2L-2.2,0z",
};

function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function methodKey(method) {
  const colour = colourOf(method);
  return svg("svg", { width: 26, height: 12, viewBox: "-13 -6 26 12", "aria-hidden": "true" },
    svg("line", { x1: -13, x2: 13, y1: 0, y2: 0, stroke: colour, "stroke-width": 2, "stroke-dasharray": DASHES[method.dash] }),
    svg("path", { d: OUTLINES[SYMBOLS[method.marker]], fill: colour }));
}

function legendEntries(kind) {
  const { methods } = setting();
  if (kind === "all") return methods.map((_, index) => index);
  return [...new Set(setting()[kind].flatMap((panel) => panel.curves.map((curve) => curve.method)))].sort((a, b) => a - b);
}

function drawLegends() {
  for (const legend of document.querySelectorAll("[data-legend]")) {
    const buttons = legendEntries(legend.dataset.legend).map((index) => {
      const method = setting().methods[index];
      const button = el("button", {
        type: "button", "aria-pressed": String(!page.hidden.has(index)), class: method.collapsed ? "bad" : null,
        title: method.collapsed ? `collapsed: ${method.collapsed}` : "Show or hide",
      }, methodKey(method), method.label);
      button.addEventListener("click", () => toggle(index));
      return button;
    });
    legend.replaceChildren(...buttons);
  }
}

function toggle(index) {
  if (!page.hidden.delete(index)) page.hidden.add(index);
  drawLegends();
  drawMultiples();
  refresh();
}

function drawScalerLegend(scalers) {
  const keys = scalers.map((key) => {
    const hollow = key === "none";
    const outline = OUTLINES[SCALER_SYMBOLS[key].replace("-open", "")];
    const paint = hollow ? { fill: "none", "stroke-width": 2 } : { fill: "currentColor", "stroke-width": 0 };
    return el("span", { class: "key" },
      svg("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, svg("path", { d: outline, stroke: "currentColor", ...paint })),
      page.data.scalers[key]);
  });
  byId("scaler-legend").replaceChildren(...keys);
}

function captioned(title, detail, node) {
  return el("figure", { class: "card" }, el("figcaption", {}, el("b", {}, title), detail ? el("span", {}, detail) : null), node);
}

function drawPanelGroup(id, panels, nothing) {
  const container = byId(id);
  forget(container);
  if (panels.length === 0) container.append(el("p", { class: "empty" }, nothing));
  for (const panel of panels) {
    const node = el("div", { class: "chart" });
    container.append(captioned(panel.title, null, node));
    chart(node, () => curvesFigure(panel, id === "curve-panels"));
  }
}

function drawPanels() {
  chart(document.querySelector('[data-chart="paths"]'), pathsFigure);
  chart(document.querySelector('[data-chart="final"]'), finalFigure);
  chart(document.querySelector('[data-chart="scaling"]'), scalingFigure);
  drawPanelGroup("curve-panels", setting().curves, "No curves were recorded.");
  drawPanelGroup("evolution-panels", setting().evolution, "No method here has a β or a moving target.");
  drawPanelGroup("unknown-panels", setting().unknown, "No method here has an unknown class.");
}

function percent(value) {
  return value === null ? "–" : `${(100 * value).toFixed(2)} %`;
}

function drawMultiples() {
  const container = byId("multiples");
  forget(container);
  const { methods, reliability } = setting();
  const chosen = methods.map((_, index) => index).filter((index) => !page.hidden.has(index));
  const some = page.all ? chosen : chosen.slice(0, FIRST_MULTIPLES);
  for (const index of some) {
    const data = reliability[index][page.reading];
    const node = el("div", { class: "chart square" });
    const numbers = `ECE ${percent(data.ece)}, floor ${percent(data.floor)}`;
    const figure = captioned(methods[index].label, numbers, node);
    figure.querySelector("figcaption").prepend(swatch(methods[index]));
    container.append(figure);
    chart(node, () => reliabilityFigure(methods[index], data));
  }
  container.dataset.few = String(chosen.length <= 3);
  byId("show-all").hidden = some.length === chosen.length;
  byId("show-all").textContent = `Show all ${chosen.length}`;
}
