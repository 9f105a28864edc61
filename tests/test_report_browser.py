"""The report's page in a real browser: nothing breaks, nothing is fetched, and every control
changes what is shown."""

from __future__ import annotations

import dataclasses
import os
import shutil
from contextlib import contextmanager

import pytest
from processes import SECONDS_UNTIL_HUNG
from report_runs import experiment, make_run

from socrates import pareto
from socrates.report.aggregate import Skipped, find_runs, group_runs, read_runs
from socrates.report.answer import answers_of
from socrates.report.page import write_page
from socrates.report.study_page import page_data

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
EVIL = "<script>document.title='broken'</script>"
SECTIONS = (
    "answer",
    "overview",
    "pareto",
    "reliability",
    "curves",
    "evolution",
    "unknown",
    "scaling",
    "differences",
    "runs",
    "glossary",
)
SERIOUS = ("serious", "critical")

# Text that is cut off or sticks out of the page, leaving out what may scroll; and chart text
# outside its drawing.
MISFITS = """() => {
  const found = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) \
found.push(`page ${root.scrollWidth} > ${root.clientWidth}`);
  const tags = "h1,h2,p,li,b,span,small,button,label,dt,dd,figcaption,summary,code,\
pre,a,th,td,output";
  for (const node of document.querySelectorAll(tags)) {
    const own = [...node.childNodes].some((child) => \
child.nodeType === 3 && child.textContent.trim());
    const box = node.getBoundingClientRect();
    if (!own || box.width === 0 || node.closest("[hidden], .heard, .summary")) continue;
    const cut = node.clientWidth > 0 && node.scrollWidth > node.clientWidth + 1;
    const out = !node.closest(".scroll, .legend") && \
(box.right > root.clientWidth + 1 || box.left < -1);
    if (cut || out) found.push(`${node.tagName} ${node.textContent.trim().slice(0, 60)}`);
  }
  for (const chart of document.querySelectorAll(".chart")) {
    const frame = chart.getBoundingClientRect();
    for (const text of chart.querySelectorAll("svg text")) {
      const box = text.getBoundingClientRect();
      if (box.width === 0) continue;
      const beside = box.left < frame.left - 1 || box.right > frame.right + 1;
      if (beside || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        found.push(`${chart.dataset.chart} ${text.textContent} \
${box.left - frame.left} ${box.right - frame.right}`);
    }
  }
  return found;
}"""

# Ends when twenty frames in a row have found everything where it was.
SETTLED = """() => new Promise((settled) => {
  let before = "";
  let same = 0;
  const look = () => {
    const boxes = [...document.querySelectorAll("body *")].map((node) => \
node.getBoundingClientRect());
    const now = boxes.map((box) => `${box.x} ${box.y} ${box.width} ${box.height}`).join();
    same = now === before ? same + 1 : 0;
    before = now;
    if (same === 20) settled();
    else requestAnimationFrame(look);
  };
  look();
})"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A page with two settings, a collapsed method, a hostile name and a skipped directory."""
    root = tmp_path_factory.mktemp("report")
    for method in ("socrates", "ce", "sat", f"my:Loss{EVIL.replace('/', '')}"):
        for seed in (1, 2, 3):
            bad = "98 % of the answers are 'unknown'" if method == "sat" else None
            skill = {"socrates": 3.0, "ce": 2.5}.get(method, 1.5)
            make_run(root / "runs", experiment(method, seed, 30, 30), skill=skill, collapsed=bad)
    for method in ("focal", "brier"):
        make_run(root / "runs", dataclasses.replace(experiment(method, 1, 30, 30), num_train=300))
    runs, _ = read_runs(find_runs(root / "runs"))
    settings = group_runs(runs)
    skipped = [Skipped(root / f"run{EVIL}", "unfinished: 3 of 30 epochs are done")]
    data = page_data(
        settings,
        answers_of(settings),
        skipped,
        command=lambda asked: f"socrates train digits {asked.method.name}",
    )
    write_page(root / "index.html", data, "A report", "Laptop scale.")
    return root / "index.html"


@pytest.fixture(scope="module")
def browser():
    found = shutil.which("chromium")
    if found is None:
        if os.environ.get("SOCRATES_REQUIRE_CHROMIUM") == "1":
            pytest.fail("chromium is not on the PATH: run scripts/install-chromium")
        pytest.skip("chromium is not on the PATH: scripts/install-chromium installs it")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield launched
        launched.close()


@contextmanager
def opened(browser, file, width=1400, height=900, **options):
    """The page with its charts there; errors and requests are gathered in `page.heard`."""
    page = browser.new_page(viewport={"width": width, "height": height}, **options)
    page.set_default_timeout(1000 * SECONDS_UNTIL_HUNG)
    page.heard = []
    page.on("console", lambda message: page.heard.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: page.heard.append(f"error: {error}"))
    page.on("request", lambda request: page.heard.append(f"request: {request.url}"))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready=charts]")
    page.evaluate("document.querySelectorAll('details.fold').forEach(one => (one.open = true))")
    yield page
    assert page.heard == [f"request: {file.as_uri()}"]
    page.close()


@pytest.fixture(scope="module")
def page(browser, file):
    with opened(browser, file) as shown:
        yield shown


@pytest.fixture(autouse=True)
def at_the_start(request):
    """Each test of the shared page begins with the first setting and reading."""
    if "page" in request.fixturenames:
        shown = request.getfixturevalue("page")
        shown.select_option("#setting", "0")
        shown.evaluate(
            "document.querySelectorAll('details.fold').forEach(one => (one.open = true))"
        )
        shown.locator("#reading input[value=answer]").check(force=True)
        shown.mouse.move(0, 0)


def rows(page):
    return page.locator("#overview-table tbody tr th").all_text_contents()


def column(page, number):
    return [
        float(text.split("\xa0")[0])
        for text in page.locator(f"#overview-table td:nth-child({number})").all_text_contents()
    ]


def painted(page, selector):
    page.locator(selector).first.scroll_into_view_if_needed()
    page.wait_for_selector(f"{selector} .main-svg")


def test_it_opens_with_every_section(page):
    assert page.title() == "A report"
    headings = [page.locator(f"#{section} :is(h1, h2)") for section in (*SECTIONS, "skipped")]
    assert all(heading.is_visible() for heading in headings)


def test_answer_and_tables_wait_for_no_script(browser, file):
    page = browser.new_page(java_script_enabled=False)
    page.goto(file.as_uri())
    assert page.locator("h1").is_visible()
    assert page.locator("#screen .dumbbells tbody tr").count() == 4
    assert page.locator("#screen .dumbbells .ring").count() == 4
    assert page.locator("#screen .dumbbells .strip").first.is_visible()
    row = page.locator("#screen .dumbbells tbody tr").first
    intervals = page.locator("#screen .vs:visible")
    assert intervals.count() == 0
    row.hover()  # the style sheet alone shows the differences to a row
    assert intervals.count() > 0
    assert page.locator("#overview-table tbody tr").count() == 4
    assert page.locator("#differences-table tbody tr").count() == 6
    assert page.locator("#run-list details").count() == 12
    # words in the place of charts
    assert page.locator(".summary:visible").count() == page.locator(".chart").count()
    for dead in (".chart", "#play", "#theme", ".legend button", "#reading", "#log"):
        assert page.locator(f"{dead}:visible").count() == 0
    page.close()


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)])
def test_the_first_screen_answers(browser, file, width, height):
    with opened(browser, file, width, height) as page:
        parts = ["h1", ".sentences", ".dumbbells tbody tr:first-child"]
        parts += [".dumbbells tbody tr:last-child"] if width > 1000 else []
        for part in parts:
            box = page.locator(part).first.bounding_box()
            assert 0 <= box["y"] < box["y"] + box["height"] <= height, part


def test_a_row_that_is_pointed_at_is_highlighted_everywhere(page):
    opacities = (
        "document.querySelector('[data-chart=final]').data.map(one => [one.meta, one.opacity ?? 1])"
    )
    page.evaluate("refreshAll()")
    row = page.locator("#screen tr[data-method]:has(button)").nth(1)
    method = int(row.get_attribute("data-method"))
    row.hover()
    assert page.locator("figure.lit").count() == 1
    page.evaluate("refreshAll()")
    shown = page.evaluate(opacities)
    assert {opacity for meta, opacity in shown if meta == method} == {1}
    assert {opacity for meta, opacity in shown if meta not in (method, None)} == {0.15}
    page.mouse.move(0, 0)
    assert page.locator(".lit").count() == 0
    row.locator("button").focus()
    assert page.locator("figure.lit").count() == 1
    page.locator("#play").focus()
    assert page.locator("figure.lit").count() == 0


def test_a_click_or_enter_makes_a_row_the_reference_that_stays(page):
    rows = page.locator("#screen tr[data-method]:has(button)")
    method = rows.nth(1).get_attribute("data-method")
    words = page.locator("#screen .vs:visible")
    assert words.count() == 0
    rows.nth(1).click()
    assert page.locator("#screen tr.reference").get_attribute("data-method") == method
    assert page.locator("#screen button[aria-pressed=true]").count() == 1
    page.mouse.move(0, 0)  # it stays
    shown = words.all()
    assert {f"vs-{method}" in one.get_attribute("class") for one in shown} == {True}
    rows.nth(0).hover()  # and other rows do not replace it
    assert {f"vs-{method}" in one.get_attribute("class") for one in words.all()} == {True}
    rows.nth(1).locator("button").focus()
    page.keyboard.press("Enter")
    page.mouse.move(0, 0)
    page.locator("#play").focus()
    assert words.count() == 0


def test_charts_are_drawn_when_idle_and_not_only_in_view(browser, file):
    with opened(browser, file) as page:
        page.wait_for_selector("html[data-drawn=true]")
        empty = (
            "[...document.querySelectorAll('.chart')].filter(node => node.clientWidth && "
            "!node.querySelector('.main-svg')).length"
        )
        assert page.evaluate("window.scrollY") == 0
        assert page.evaluate(empty) == 0


def test_only_the_selected_method_leaves_a_trail(page):
    page.evaluate("refreshAll()")
    trails = """document.querySelector('[data-chart=paths]').data
      .filter(one => one.mode.includes('lines')).map(one => one.meta)"""
    assert page.evaluate(trails) == [page.evaluate("setting().trail")]
    row = page.locator("#screen tr[data-method]").nth(0)
    row.hover()
    page.evaluate("refreshAll()")
    assert page.evaluate(trails) == [int(row.get_attribute("data-method"))]
    page.mouse.move(0, 0)


def test_the_front_is_that_of_the_methods_shown_and_axes_stay(page):
    page.evaluate("refreshAll()")
    ringed = """document.querySelector('[data-chart=final]').data
      .filter(one => one.role === 'end' && one.marker.line.width === 2).map(one => one.meta)"""
    ranges = """[...document.querySelectorAll('.chart')].map(\
node => Object.entries(node._fullLayout)
      .filter(([name]) => /^[xy]axis/.test(name))
      .map(([name, axis]) => axis.range.map(end => end.toFixed(6)).join()))"""
    ends = """document.querySelector('[data-chart=final]').data\
.filter(one => one.role === 'end' && !one.loose)
      .map(one => [one.customdata[0][0], one.customdata[0][1], one.meta])"""
    front, axes = page.evaluate(ringed), page.evaluate(ranges)
    button = page.locator(f"#pareto .legend button[data-method='{front[0]}']")
    button.click()
    page.evaluate("refreshAll()")
    left = page.evaluate(ends)
    assert front[0] not in [method for *_, method in left]
    assert {*page.evaluate(ringed)} == {
        method for *_, method in pareto.front(left, key=lambda end: tuple(end[:2]))
    }
    assert page.evaluate(ranges) == axes
    button.click()


@pytest.mark.parametrize("shade", ["light", "dark"])
def test_axe_finds_nothing_serious(page, shade):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.locator(f"#theme input[value={shade}]").check(force=True)
    page.evaluate("refreshAll()")
    found = axe.Axe().run(page).response["violations"]
    page.locator("#theme input[value=auto]").check(force=True)
    assert [
        (one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in SERIOUS
    ] == []


def test_names_are_text_and_never_markup(page):
    assert any("<script>" in name for name in rows(page))
    assert "<script>" in page.locator("#skipped code").text_content()


def test_every_chart_can_be_drawn(page):
    page.evaluate("refreshAll()")
    charts = page.locator(".chart").count()
    # plane, reliability, curves, evolution, unknown, scaling
    assert charts == 2 + 4 + 6 + 2 + 5 + 1
    assert page.locator(".chart:has(.main-svg)").count() == charts


def test_slider_moves_the_paths(page):
    painted(page, "[data-chart=paths]")
    lengths = (
        "document.querySelector('[data-chart=paths]').data.filter(one => one.mode).map(one "
        "=> one.x.length)"
    )
    assert page.locator("#epoch-shown").text_content() == "epoch 30"
    whole = page.evaluate(lengths)
    epochs = page.evaluate("page.epochs")
    page.locator("#epoch").fill("3")
    assert page.locator("#epoch-shown").text_content() == f"epoch {epochs[3]}"
    assert sorted(whole) == [1, 1, 1, 1, len(epochs)]  # a mark of each, and the trail of one
    assert sorted(page.evaluate(lengths)) == [1, 1, 1, 1, 4]
    last = "document.querySelector('[data-chart=paths]').data.at(-1).customdata[0][0]"
    assert page.evaluate(last) == epochs[3]


def test_play_runs_through_the_epochs(page):
    page.evaluate("document.getElementById('epoch').value = page.epochs.length - 3")
    page.evaluate("""() => {
      window.seen = [];
      for (const id of ["play", "epoch-shown"]) {
        const node = document.getElementById(id);
        new MutationObserver(() => window.seen.push(node.textContent))\
.observe(node, { childList: true });
      }
    }""")
    page.locator("#play").click()
    page.wait_for_selector("#epoch-shown:text-is('epoch 30')")
    page.wait_for_selector("#play:text-is('Play')")
    seen = [text for text in page.evaluate("window.seen") if text != "epoch 28"]
    assert seen == ["Pause", "epoch 29", "epoch 30", "Play"]


def test_heads_sort_both_ways_by_mouse_and_keyboard(page):
    head = page.locator("#overview-table th button").nth(1)
    head.click()
    rising = column(page, 2)
    assert rising == sorted(rising)
    assert page.locator("#overview-table th").nth(1).get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")  # the head keeps the focus
    assert column(page, 2) == sorted(rising, reverse=True)
    assert page.locator("#overview-table th").nth(1).get_attribute("aria-sort") == "descending"
    assert len(set(rising)) > 1
    page.locator("#overview-table th button").first.click()
    names = [name.lower() for name in rows(page)]
    assert names == sorted(names)


def test_reading_switch_changes_table_diagram_and_points(page):
    painted(page, "#reliability-charts .chart")
    place = "document.querySelector('.legend button.bad').dataset.method"
    drawn = f"JSON.stringify(document.querySelectorAll('#reliability-charts .chart')[{place}].data)"
    own = f"one.role === 'end' && one.meta === Number({place})"
    final = (
        "JSON.stringify(document.querySelector('[data-chart=final]').data.find(one => "
        f"{own}).customdata)"
    )
    page.evaluate("refreshAll()")
    row = page.locator("#overview-table tr", has_text="SAT")
    before = row.text_content(), page.evaluate(drawn), page.evaluate(final)
    plain = page.locator("#overview-table tr", has_text="CE").last.text_content().replace("†", "")
    page.locator("#reading input[value=renormalize]").check(force=True)
    page.evaluate("refreshAll()")
    after = row.text_content(), page.evaluate(drawn), page.evaluate(final)
    assert all(old != new for old, new in zip(before, after, strict=True))
    # Its numbers stay; whether they can be told from the best depends on the others.
    again = page.locator("#overview-table tr", has_text="CE").last.text_content()
    assert again.replace("†", "") == plain
    assert "the known classes share all belief" in page.locator("#explain").text_content()
    assert page.locator("#paths-reading").is_visible()


def test_setting_selector_changes_everything(page):
    page.select_option("#setting", "1")
    assert sorted(rows(page)) == ["Brier", "Focal"]
    assert page.locator("#reliability-charts figure").count() == 2
    assert page.locator("#unknown").count() == 0  # there is nothing to show
    assert page.locator("#reading").count() == 0
    assert page.locator("#run-list details").count() == 2


def test_legend_hides_a_method_everywhere(page):
    painted(page, "[data-chart=final]")
    traces = (
        "document.querySelector('[data-chart=final]').data.filter(one => one.meta !== "
        "undefined).length"
    )
    assert page.evaluate(traces) == 8
    page.locator("#pareto .legend button", has_text="SAT").click()
    assert page.evaluate(traces) == 6
    assert page.locator("#reliability-charts figure:visible").count() == 3
    assert page.locator("#curves .legend button[aria-pressed=false]").text_content() == "SAT"
    page.locator("#pareto .legend button", has_text="SAT").click()


def test_collapsed_runs_are_red_and_give_the_reason(page):
    row = page.locator("#overview-table tr.collapsed")
    assert row.count() == 1
    assert "98 % of the answers are 'unknown'" in row.text_content()
    run = page.locator("#run-list .collapsed .state")
    assert run.count() == 3
    assert run.first.text_content() == "collapsed: 98 % of the answers are 'unknown'"
    red, green, blue = page.evaluate(
        "getComputedStyle(document.querySelector('.run.collapsed .state')).color.match(/\\d+/g)"
    )
    assert int(red) > 2 * max(int(green), int(blue))


def test_a_run_opens_to_its_configuration_and_command(page):
    run = page.locator("#run-list details", has_text="CE").first
    run.locator("summary").click()
    assert run.locator(".command code").text_content() == "socrates train digits ce"
    assert '"learning_rate": 0.1' in run.locator("pre").text_content()


def misfits(page):
    """What does not fit, in both settings with every chart drawn and every run opened."""
    found = []
    for setting in ("0", "1"):
        page.select_option("#setting", setting)
        page.evaluate("refreshAll()")
        page.evaluate("document.querySelectorAll('details').forEach(one => (one.open = true))")
        page.evaluate(SETTLED)
        found += page.evaluate(MISFITS)
    return found


def test_no_text_is_cut_off_on_a_screen(page):
    assert misfits(page) == []


def test_no_text_is_cut_off_on_a_phone(browser, file):
    with opened(browser, file, 390) as page:
        assert misfits(page) == []


def test_dark_mode_recolours_page_and_charts(page):
    shade = "getComputedStyle(document.body).backgroundColor"
    grid = "document.querySelector('[data-chart=final]')._fullLayout.xaxis.gridcolor"
    painted(page, "[data-chart=final]")
    light = page.evaluate(shade), page.evaluate(grid)
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-shade=dark]")
    dark = page.evaluate(shade), page.evaluate(grid)
    page.locator("#theme input[value=light]").check(force=True)
    page.evaluate("refreshAll()")  # the switch is at the top, so that the chart is out of view
    assert (page.evaluate(shade), page.evaluate(grid)) == light
    assert all(old != new for old, new in zip(light, dark, strict=True))
    assert sum(map(int, light[0][4:-1].split(","))) > 600
    assert sum(map(int, dark[0][4:-1].split(","))) < 150
    page.locator("#theme input[value=auto]").check(force=True)
    page.emulate_media(color_scheme="light")


def test_print_has_every_section_and_no_controls(page):
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_selector("html[data-printing]")
    assert all(
        page.locator(f"#{section} :is(h1, h2)").is_visible() for section in (*SECTIONS, "skipped")
    )
    assert not page.locator(".page-bar").is_visible()
    assert not page.locator("#play").is_visible()
    assert page.locator(".chart:not(:has(.main-svg))").count() == 0
    assert page.evaluate("document.documentElement.dataset.shade") == "light"
    widths = (
        "[...document.querySelectorAll('table, .chart')].map(one => "
        "one.getBoundingClientRect().width)"
    )
    assert 600 <= max(page.evaluate(widths)) <= 711  # A4 without its margins
    page.evaluate("document.querySelectorAll('details').forEach(one => (one.open = false))")
    assert page.pdf(format="A4").count(b"/Type /Page\n") <= 7
    page.emulate_media(media="screen", color_scheme="light")
    page.wait_for_selector("html:not([data-printing])")


def test_a_phone_has_cards_and_targets_for_thumbs(browser, file):
    with opened(browser, file, width=390, height=844) as page:
        cells = page.locator("#overview-table tbody tr").first.locator("td")
        assert (
            cells.first.evaluate("node => getComputedStyle(node, '::before').content")
            == '"Acc (%)"'
        )
        assert page.evaluate("document.querySelector('#overview-table').scrollWidth") <= 390
        small = page.evaluate(
            """() => [...document.querySelectorAll("button, select, summary, \
.segmented span, .all-rows label, .failures label")]
              .filter((node) => node.checkVisibility() && !node.closest(".scroll") && \
!node.closest(".modebar"))
              .filter((node) => node.getBoundingClientRect().height > 1 && \
node.getBoundingClientRect().height < 43.5)
              .map((node) => `${node.tagName} ${node.textContent.trim()} \
${node.getBoundingClientRect().height}`)"""
        )
        assert not small
