"use strict";

const SYMBOLS = { o: "circle", s: "square", "^": "triangle-up", D: "diamond", v: "triangle-down", P: "cross", X: "x" };
const SCALER_SYMBOLS = { none: "circle-open", temperature: "circle", vector: "square", matrix: "diamond", readout: "triangle-up" };
const DASHES = { solid: "", dash: "5 3", dot: "1.5 2.5", dashdot: "5 2.5 1.5 2.5" };
const FIRST_MULTIPLES = 12;

const figures = new Map();
const stale = new Set();
const inView = new Set();
const widths = new WeakMap();

const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) inView.add(target);
    else inView.delete(target);
    if (isIntersecting) paint(target);
  }
}, { rootMargin: "400px" });

const sizes = new ResizeObserver((entries) => {
  refresh(entries.map((entry) => entry.target).filter((target) => target.clientWidth !== widths.get(target)));
});

function chart(node, figure) {
  figures.set(node, figure);
  stale.add(node);
  watcher.observe(node);
  sizes.observe(node);
}

function forget(container) {
  for (const node of container.querySelectorAll(".chart")) {
    watcher.unobserve(node);
    sizes.unobserve(node);
    figures.delete(node);
    stale.delete(node);
    inView.delete(node);
    if (window.Plotly) Plotly.purge(node);
  }
  container.replaceChildren();
}

function refresh(nodes = [...figures.keys()]) {
  for (const node of nodes) {
    stale.add(node);
    if (inView.has(node)) paint(node);
  }
}

function refreshAll() {
  for (const node of figures.keys()) {
    stale.add(node);
    paint(node);
  }
}

function paint(node) {
  if (!window.Plotly || !stale.has(node) || !figures.has(node) || node.clientWidth === 0) return;
  stale.delete(node);
  const { traces, layout } = figures.get(node)();
  if (layout.height) node.style.height = `${layout.height}px`;
  widths.set(node, node.clientWidth);
  const base = baseLayout(node);
  const merged = { ...base, ...layout, xaxis: { ...base.xaxis, ...layout.xaxis }, yaxis: { ...base.yaxis, ...layout.yaxis } };
  const touch = window.matchMedia("(pointer: coarse)").matches;
  Plotly.react(node, traces, { ...merged, dragmode: touch ? false : "zoom" }, { displayModeBar: false, doubleClick: "reset" });
}

function tone(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function baseLayout(node) {
  const axis = {
    gridcolor: tone("grid"), linecolor: tone("line"), zeroline: false, showline: true, ticks: "", automargin: true,
    tickfont: { color: tone("soft"), size: 11.5 }, title: { font: { color: tone("soft"), size: 12.5 }, standoff: 8 },
  };
  return {
    width: node.clientWidth, height: node.clientHeight, showlegend: false,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, color: tone("ink"), size: 12 },
    margin: { l: 8, r: 10, t: 12, b: 8 }, hovermode: "closest",
    hoverlabel: { bgcolor: tone("card"), bordercolor: tone("line"), font: { color: tone("ink"), size: 12.5 }, namelength: -1 },
    xaxis: axis, yaxis: axis,
  };
}

// Plotly reads a few tags in its texts: what comes from a run must not be one.
function plain(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function faded(colour, alpha) {
  const [red, green, blue] = [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
  return `rgba(${red},${green},${blue},${alpha})`;
}

const axisTitle = (text) => ({ text, font: { color: tone("soft"), size: 12.5 }, standoff: 8 });
const visible = (entry) => !page.hidden.has(entry.method);
const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

const LOG_STEPS = [[1], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8], [1, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3.2, 3.6, 4, 4.5, 5, 5.5, 6, 7, 8, 9]];

function logTicks(low, high) {
  const powers = [-4, -3, -2, -1, 0, 1, 2];
  const choices = LOG_STEPS.map((steps) => powers.flatMap((power) => steps.map((step) => Number((step * 10 ** power).toPrecision(2)))));
  const inside = choices.map((values) => values.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high));
  const few = inside.find((values) => values.length > 2) ?? inside.at(-1);
  return { tickmode: "array", tickvals: few, ticktext: few.map(String) };
}

// Zero has no place on a logarithmic axis: it is drawn at its lower end, and named truly when pointed at.
function logScale(values) {
  const positive = values.filter((value) => value > 0);
  const least = positive.length ? Math.min(...positive) : 0.1;
  const bottom = positive.length === values.length ? least : least / 2;
  const [low, high] = [Math.log10(bottom), Math.log10(Math.max(...positive, bottom))];
  const room = Math.max(0.07 * (high - low), 0.06);
  const axis = (title) => ({ type: "log", range: [low - room, high + room], ...logTicks(low - room, high + room), title: axisTitle(title) });
  return { axis, at: (own) => own.map((value) => (value === null ? null : Math.max(value, bottom))) };
}

function acceptableLine(level) {
  return {
    shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: level, y1: level, line: { dash: "dot", width: 1.5, color: tone("soft") } }],
  };
}

function planeScales(entries, extra = []) {
  const all = (key) => entries.flatMap((entry) => entry[key]).filter((value) => value !== null);
  return [logScale(all("error")), logScale([...all("ece"), ...extra])];
}

function pathsFigure() {
  const { methods, pareto } = setting();
  const [error, ece] = planeScales(pareto.paths.filter(visible), [pareto.acceptable]);
  const hovertemplate = "epoch %{customdata[0]}<br>error %{customdata[1]:.2f} %<br>ECE %{customdata[2]:.2f} %";
  const traces = pareto.paths.filter(visible).flatMap((path) => {
    const method = methods[path.method];
    const colour = colourOf(method);
    const end = path.epochs.filter((epoch) => epoch <= page.epoch).length;
    const all = { type: "scatter", name: plain(method.label), hovertemplate, x: error.at(path.error), y: ece.at(path.ece),
      customdata: path.epochs.map((epoch, i) => [epoch, path.error[i], path.ece[i]]) };
    const part = (from) => ({ ...all, x: all.x.slice(from, end), y: all.y.slice(from, end), customdata: all.customdata.slice(from, end) });
    return [
      { ...part(0), mode: "lines+markers", opacity: 0.6, line: { color: colour, dash: method.dash, width: 1.5 }, marker: { color: colour, size: 3.5 } },
      { ...part(Math.max(end - 1, 0)), mode: "markers",
        marker: { color: colour, size: 13, symbol: SYMBOLS[method.marker], line: { color: tone("card"), width: 1.5 } } },
    ];
  });
  return { traces, layout: { xaxis: error.axis("error, %"), yaxis: ece.axis("ECE, %"), ...acceptableLine(pareto.acceptable) } };
}

function finalFigure() {
  const { methods, pareto } = setting();
  const points = pareto.final[page.reading].filter(visible);
  const [error, ece] = planeScales(points);
  const hovertemplate = "error %{customdata[0]:.2f} %<br>ECE %{customdata[1]:.2f} %";
  const traces = points.flatMap((point) => {
    const method = methods[point.method];
    const onFront = pareto.front[page.reading].includes(point.method);
    const ring = { color: onFront ? tone("ink") : tone("card"), width: onFront ? 2 : 1.5 };
    const trace = (x, y, marker) => ({ type: "scatter", mode: "markers", name: plain(method.label), hovertemplate,
      x: error.at(x), y: ece.at(y), customdata: x.map((value, i) => [value, y[i]]),
      marker: { color: colourOf(method), symbol: SYMBOLS[method.marker], ...marker } });
    return [
      trace(point.error, point.ece, { size: 6, opacity: 0.5 }),
      trace([average(point.error)], [average(point.ece)], { size: 14, line: ring }),
    ];
  });
  const line = Math.max(...points.flatMap((point) => point.ece)) > 0.7 * pareto.acceptable;
  return { traces, layout: { xaxis: error.axis("error, %"), yaxis: ece.axis("ECE, %"), ...(line ? acceptableLine(pareto.acceptable) : {}) } };
}

function reliabilityFigure(method, data) {
  const colour = colourOf(method);
  const x = data.lower.map((low, i) => (low + data.upper[i]) / 2);
  const width = data.lower.map((low, i) => data.upper[i] - low);
  const customdata = data.confidence.map((value, i) => [value, data.accuracy[i], data.low[i], data.high[i], data.share[i]]);
  const shared = { customdata, hovertemplate: "confidence %{customdata[0]:.1%}<br>accuracy %{customdata[1]:.1%}<br>" +
    "by chance %{customdata[2]:.1%} – %{customdata[3]:.1%}<br>%{customdata[4]:.1%} of the predictions<extra></extra>" };
  const traces = [
    { ...shared, type: "bar", x, width, y: data.high.map((high, i) => high - data.low[i]), base: data.low, marker: { color: faded("#808080", 0.24) } },
    { ...shared, type: "scatter", mode: "lines+markers", x: data.confidence, y: data.accuracy, cliponaxis: false,
      line: { color: colour, width: 1.5 }, marker: { color: colour, size: 7.5, symbol: SYMBOLS[method.marker], line: { color: tone("card"), width: 1 } } },
    { ...shared, type: "bar", x, width: width.map((w) => 0.86 * w), y: data.share, yaxis: "y2", marker: { color: faded(colour, 0.7) } },
  ];
  const ticks = { tickvals: [0, 0.25, 0.5, 0.75, 1], ticktext: ["0", "", "0.5", "", "1"] };
  const diagonal = { type: "line", x0: 0, x1: 1, y0: 0, y1: 1, line: { dash: "dash", width: 1.2, color: tone("soft") } };
  return { traces, layout: {
    barmode: "overlay", shapes: [diagonal], margin: { l: 8, r: 8, t: 10, b: 8 },
    xaxis: { range: [0, 1], ...ticks, title: axisTitle("confidence"), anchor: "y2" },
    yaxis: { range: [0, 1], domain: [0.22, 1], ...ticks, title: axisTitle("accuracy"), showline: false },
    yaxis2: { domain: [0, 0.15], range: [0, 1], showticklabels: false, showgrid: false, zeroline: false, fixedrange: true },
  } };
}

// From a steep start on, all that follows would look flat: the first epochs may leave the frame.
function curveRange(curves, steep) {
  const begin = steep ? 0.05 : 0;
  const values = curves.flatMap((curve) => curve.mean.slice(Math.floor(begin * curve.mean.length))).filter((value) => value !== null);
  if (values.length === 0) return null;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = 0.06 * (high - low) || 0.5 * Math.abs(high) || 1;
  return [low >= 0 ? Math.max(low - room, -0.03 * (high + room)) : low - room, high + room];
}

function curveAxis(panel, curves, steep) {
  const values = curves.flatMap((curve) => curve.mean).filter((value) => value !== null);
  if (panel.log && byId("log").checked && values.length) {
    const scale = logScale(values);
    return { axis: scale.axis(""), at: scale.at };
  }
  return { axis: { range: curveRange(curves, steep), tickformat: ".3~g" }, at: (own) => own };
}

function curvesFigure(panel, steep) {
  const { methods } = setting();
  const curves = panel.curves.filter(visible);
  const { axis, at } = curveAxis(panel, curves, steep);
  const traces = curves.flatMap((curve) => {
    const method = methods[curve.method];
    const colour = colourOf(method);
    const shared = { type: "scatter", mode: "lines", x: method.epochs, name: plain(method.label) };
    const edge = { ...shared, line: { width: 0 }, hoverinfo: "skip" };
    const band = curve.low ? [
      { ...edge, y: at(curve.low) },
      { ...edge, y: at(curve.high), fill: "tonexty", fillcolor: faded(colour, 0.15) },
    ] : [];
    return [...band, { ...shared, y: at(curve.mean), customdata: curve.mean, line: { color: colour, dash: method.dash, width: 2 },
      hovertemplate: "epoch %{x}<br>%{customdata:.4~g}" }];
  });
  return { traces, layout: { xaxis: { title: axisTitle("epoch") }, yaxis: { ...axis, title: undefined } } };
}

function shortened(text, letters) {
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}

function scalingFigure() {
  const { methods, scaling } = setting();
  const points = scaling[page.reading].points.filter(visible);
  const rows = [...new Set(points.map((point) => point.method))];
  const ece = logScale(points.map((point) => point.ece));
  const traces = rows.flatMap((index, place) => {
    const own = points.filter((point) => point.method === index);
    const colour = colourOf(methods[index]);
    const x = ece.at(own.map((point) => point.ece));
    const y = own.map(() => rows.length - place);
    return [
      { type: "scatter", mode: "lines", x: [Math.min(...x), Math.max(...x)], y, line: { color: faded(colour, 0.3), width: 3 }, hoverinfo: "skip" },
      { type: "scatter", mode: "markers", x, y, name: plain(methods[index].label),
        customdata: own.map((point) => [page.data.scalers[point.scaler], point.ece, point.error]),
        hovertemplate: "%{customdata[0]}: ECE %{customdata[1]:.2f} %<br>error %{customdata[2]:.2f} %",
        marker: { color: colour, size: 11, opacity: 0.9, symbol: own.map((point) => SCALER_SYMBOLS[point.scaler]),
          line: { width: own.map((point) => (point.scaler === "none" ? 2.5 : 0)), color: colour } } },
    ];
  });
  const letters = Math.floor(document.querySelector('[data-chart="scaling"]').clientWidth / 8.5);
  const names = rows.map((index, place) => ({ xref: "paper", x: 0, xanchor: "left", y: rows.length - place + 0.4, yanchor: "middle",
    text: plain(shortened(methods[index].label, letters)), showarrow: false, font: { size: 12.5, color: tone("ink") } }));
  return { traces, layout: {
    height: 70 + 48 * Math.max(rows.length, 1), annotations: names, xaxis: ece.axis("ECE, %"),
    yaxis: { range: [0.55, rows.length + 0.75], showticklabels: false, showgrid: false, showline: false },
  } };
}
