// Charts in view are drawn first, the others as soon as the browser is idle: a page that is printed
// or photographed whole has no empty cards. They are drawn again when what they show has changed.

const stale = new Set();
const inView = new Set();
const widths = new WeakMap();
const whenIdle = window.requestIdleCallback ?? ((draw) => setTimeout(() => draw({ timeRemaining: () => 8 }), 20));
let waiting = false;

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

function mount() {
  for (const node of all(".chart")) {
    stale.add(node);
    watcher.observe(node);
    sizes.observe(node);
  }
}

function unmount() {
  watcher.disconnect();
  sizes.disconnect();
  stale.clear();
  inView.clear();
  if (window.Plotly) all(".chart").forEach((node) => Plotly.purge(node));
}

function refresh(nodes = all(".chart")) {
  for (const node of nodes) {
    stale.add(node);
    if (inView.has(node)) paint(node);
  }
  drawLater();
}

function refreshAll() {
  for (const node of all(".chart")) {
    stale.add(node);
    paint(node);
  }
  drawLater();
}

function drawLater() {
  const left = [...stale].some((node) => node.isConnected && node.clientWidth > 0);
  root.dataset.drawn = String(!left);
  if (!left || waiting || !window.Plotly) return;
  waiting = true;
  whenIdle(drawSome, { timeout: 1000 });
}

function drawSome(deadline) {
  waiting = false;
  for (const node of [...stale]) {
    paint(node);
    if (deadline.timeRemaining() < 2) break;
  }
  drawLater();
}

function paint(node) {
  if (!window.Plotly || !stale.has(node) || node.clientWidth === 0) return;
  stale.delete(node);
  widths.set(node, node.clientWidth);
  const chart = setting().charts[node.dataset.chart];
  const { data, layout } = read(chart.figures);
  if (layout.height) node.style.height = `${layout.height}px`;
  const shown = data.filter((trace) => !page.hidden.has(trace.meta) && !otherTrail(trace));
  const traces = fronted(shown.map(untilEpoch)).map(lit);
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const size = { width: node.clientWidth, height: node.clientHeight, dragmode: touch ? false : "zoom" };
  const font = { family: getComputedStyle(document.body).fontFamily };
  const annotations = named(layout.annotations, node.clientWidth);
  const linear = chart.linear !== null && !byId("log").checked ? { yaxis: chart.linear } : {};
  const merged = { ...layout, ...linear, ...size, font, annotations, template: page.data.chart_template };
  const draw = (drawn, more) => Plotly.react(node, coloured(drawn), coloured({ ...merged, ...more }), { displayModeBar: false, doubleClick: "reset" });
  draw(traces, frozenAxes(node, data, draw));
}

// Axes show the range of all methods, so that hiding one moves nothing.
function frozenAxes(node, data, draw) {
  if (![...page.hidden].some((method) => data.some((trace) => trace.meta === method))) return {};
  draw(data.map(untilEpoch), {});
  const axes = Object.entries(node._fullLayout).filter(([name]) => /^[xy]axis\d*$/.test(name));
  return Object.fromEntries(axes.map(([name, axis]) => [name, { ...node.layout[name], range: [...axis.range], autorange: false }]));
}

// The Pareto front of the methods that are shown: a ring around its ends, and stairs through them.
function fronted(traces) {
  const ends = traces.filter((trace) => trace.role === "end" && !trace.loose);
  const at = (trace) => [trace.customdata[0][0], trace.customdata[0][1]];
  const beats = ([a, b], [x, y]) => a <= x && b <= y && (a < x || b < y);
  const front = ends.filter((one) => !ends.some((other) => beats(at(other), at(one)))).sort((a, b) => a.x[0] - b.x[0]);
  return traces.map((trace) => {
    if (trace.role === "front") return { ...trace, x: front.map((one) => one.x[0]), y: front.map((one) => one.y[0]) };
    if (trace.role !== "end") return trace;
    const line = front.includes(trace) ? { color: "ink", width: 2 } : { color: "card", width: 1.5 };
    return { ...trace, marker: { ...trace.marker, line } };
  });
}

function lit(trace) {
  return chosen.lit === null || trace.meta === undefined || trace.meta === chosen.lit ? trace : { ...trace, opacity: 0.15 };
}

// Only the selected method leaves a trail: several of them cannot be followed.
function otherTrail(trace) {
  return trace.cut === "until" && trace.meta !== (chosen.lit ?? setting().trail);
}

function untilEpoch(trace) {
  if (trace.cut === undefined) return trace;
  const end = trace.customdata.filter(([epoch]) => epoch <= page.epoch).length;
  const from = trace.cut === "at" ? Math.max(end - 1, 0) : 0;
  const { cut, ...kept } = trace;
  return { ...kept, x: trace.x.slice(from, end), y: trace.y.slice(from, end), customdata: trace.customdata.slice(from, end) };
}

function named(annotations = [], width) {
  const letters = Math.floor(width / 8.5);
  const short = (text) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return annotations.filter(({ name }) => !page.hidden.has(Number(name))).map((one) => ({ ...one, text: plain(short(one.text)) }));
}

// Colours are names of the style sheet's, with an opacity after a space.
function coloured(value, key = "") {
  if (Array.isArray(value)) return value.map((item) => coloured(item, key));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, coloured(item, name)]));
  }
  if (typeof value !== "string" || !key.endsWith("color")) return value;
  const [name, opacity = ""] = value.split(" ");
  const found = getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  return found ? found + opacity : value;
}
