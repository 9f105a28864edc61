"use strict";

const order = { column: null, descending: false };

function colourOf(method) {
  return document.documentElement.dataset.shade === "dark" ? method.dark : method.colour;
}

function swatch(method) {
  const dot = el("span", { class: "swatch", "aria-hidden": "true" });
  dot.style.setProperty("--light", method.colour);
  dot.style.setProperty("--dark", method.dark);
  return dot;
}

function cellContent([text]) {
  const [mean, deviation] = text.split(" ± ");
  return deviation === undefined ? [text] : [mean, el("span", { class: "pm" }, `\u00a0±\u00a0${deviation}`)];
}

function cell(entry) {
  return el("td", { class: entry[2] || null }, ...cellContent(entry));
}

function methodHead(method) {
  return el("th", { scope: "row" }, swatch(method), method.label);
}

function overviewName(method) {
  const head = methodHead(method);
  if (method.collapsed) head.append(el("small", { class: "bad" }, method.collapsed));
  return head;
}

function sortedIndices(rows) {
  const indices = rows.map((_, index) => index);
  if (order.column === null) return indices;
  const value = (index) => (order.column === 0 ? setting().methods[index].label : rows[index][order.column - 1][1]);
  const sign = order.descending ? -1 : 1;
  return indices.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y);
  });
}

function sortBy(column) {
  order.descending = order.column === column && !order.descending;
  order.column = column;
  drawOverview();
  document.querySelectorAll("#overview-table thead button")[column].focus();
}

function overviewHead() {
  const heads = [{ title: "Method", hint: "" }, ...page.data.columns];
  const cells = heads.map((head, column) => {
    const direction = order.descending ? "descending" : "ascending";
    const button = el("button", { type: "button", title: head.hint || null }, head.title);
    button.addEventListener("click", () => sortBy(column));
    return el("th", { scope: "col", "aria-sort": order.column === column ? direction : null }, button);
  });
  return el("thead", {}, el("tr", {}, ...cells));
}

function drawOverview() {
  const rows = setting().overview[page.reading];
  const { methods } = setting();
  const body = sortedIndices(rows).map((index) =>
    el("tr", { class: methods[index].collapsed ? "collapsed" : null },
      overviewName(methods[index]), ...rows[index].map(cell)));
  byId("overview-table").replaceChildren(overviewHead(), el("tbody", {}, ...body));
}

function drawScaling() {
  const { methods, scaling } = setting();
  const { scalers, rows } = scaling[page.reading];
  const names = scalers.map((key) => page.data.scalers[key]);
  const groups = ["ECE, %", "Accuracy, %"];
  const head = el("thead", {},
    el("tr", {}, el("th", { rowspan: 2, scope: "col" }, "Method"),
      ...groups.map((title) => el("th", { class: "group", colspan: names.length, scope: "colgroup" }, title))),
    el("tr", {}, ...groups.flatMap(() => names.map((name) => el("th", { scope: "col" }, name)))));
  const body = rows.map((row, index) => el("tr", {}, methodHead(methods[index]), ...row.map(cell)));
  byId("scaling-table").replaceChildren(head, el("tbody", {}, ...body));
  drawScalerLegend(scalers);
}

function drawReference() {
  const { methods, reference } = setting();
  const options = methods.map((method, index) => el("option", { value: index }, method.label));
  byId("reference").replaceChildren(...options);
  byId("reference").value = String(reference);
}

function drawDifferences() {
  const { methods, differences } = setting();
  const reference = Number(byId("reference").value);
  const titles = page.data.compared.flatMap((title) => [title, "Verdict"]);
  const head = el("tr", {}, el("th", { scope: "col" }, "Method"), el("th", { scope: "col" }, "Seeds"),
    ...titles.map((title) => el("th", { scope: "col", class: title === "Verdict" ? "text" : null }, title)));
  const body = methods.map((method, index) => {
    if (index === reference) return null;
    const entries = differences[page.reading].map((metric) => metric[reference][index]);
    const seeds = entries[0][3];
    const cells = entries.flatMap(([text, verdict, mark]) => [el("td", {}, text), el("td", { class: `text ${mark}` }, verdict)]);
    return el("tr", {}, methodHead(method), el("td", {}, String(seeds)), ...cells);
  });
  const empty = el("tr", {}, el("td", { class: "text", colspan: titles.length + 2 }, "There is only one method."));
  const rows = body.filter((row) => row !== null);
  byId("differences-table").replaceChildren(el("thead", {}, head), el("tbody", {}, ...(rows.length ? rows : [empty])));
}

function copyButton(text) {
  const button = el("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it and press Ctrl+C";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return button;
}

function runEntry(run) {
  const method = setting().methods[run.method];
  const summary = el("summary", {},
    el("b", {}, swatch(method), method.label),
    el("span", {}, `seed ${run.seed}`),
    el("span", { class: "wide" }, `${run.epochs} epochs`),
    el("span", { class: "wide" }, run.time),
    el("span", { class: "state" }, run.collapsed ? `collapsed: ${run.collapsed}` : "finished"));
  const details = el("details", { class: run.collapsed ? "run collapsed" : "run" }, summary);
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    details.append(el("div", { class: "run-body" },
      el("p", {}, "Repeat it with"),
      el("div", { class: "command" }, el("code", {}, run.command), copyButton(run.command)),
      el("p", {}, `Configuration, from ${run.directory}`),
      el("pre", {}, JSON.stringify(run.experiment, null, 2))));
  });
  return details;
}

function drawRuns() {
  byId("run-list").replaceChildren(...setting().runs.map(runEntry));
}
