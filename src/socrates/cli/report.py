"""`socrates report`, and what makes runs and reports them: `socrates quickstart | reproduce`."""

from collections.abc import Mapping
from pathlib import Path

from socrates.engine.display import StudyDisplay
from socrates.files import check_output, remove_half_written
from socrates.paper.compare import published
from socrates.paper.published import CAVEATS
from socrates.paper.reproduce import plan
from socrates.prose import whole
from socrates.quickstart import quickstart
from socrates.report.answer import Answer, over_settings
from socrates.report.figures.compose import Width
from socrates.report.terminal import NamedMarkdown
from socrates.report.words import failed_run
from socrates.report.write import Written, write_report

from .commands import Quickstart, Report, Reproduce
from .dry_run import show_plan
from .options import parse_seeds
from .output import complain, console, show
from .repeat import command_of


def run_report(options: Report) -> None:
    """Carry out `socrates report`."""
    written = make_report(
        options.runs, options.out, options.title, options.width, options.count_failed
    )
    show_answers(written.answers)
    show_written(written)


def make_report(
    roots: tuple[Path, ...],
    out: Path,
    title: str,
    width: Width = "full",
    count_failed: bool = False,
) -> Written:
    """Write the report of the runs below the roots, with the paper's numbers where they apply."""
    check_output(out, is_folder=True)
    if out.is_dir():
        remove_half_written(out)
    with console.status("reading runs") as status:
        return write_report(
            roots,
            out,
            command=command_of,
            published=published,
            caveats=CAVEATS,
            title=title,
            width=width,
            count_failed=count_failed,
            progress=status.update,
        )


def show_answers(answers: Mapping[str, Answer]) -> None:
    """Print the answer of the report: all of it for one setting, the headlines of several."""
    console.print()
    if overall := over_settings(answers):
        show(" ".join(overall.sentences), f"{overall.headline} ")
    for heading, answer in answers.items():
        if len(answers) > 1:
            show("", f"{heading}: {answer.headline}")
        else:
            show("", answer.headline)
            for sentence in filter(None, (*answer.sentences, answer.verdict)):
                show(sentence)
        for failure in answer.failures:
            show("", f"{failed_run(failure)}; not in the means", "red")
    console.print()


def show_written(written: Written) -> None:
    """Print where the report is, and on standard error what it leaves out."""
    for skipped in written.skipped[:10]:
        complain(f"{whole(skipped.directory)}: {skipped.reason}", "left out: ", "yellow")
    if len(written.skipped) > 10:
        more = f"{len(written.skipped) - 10} more, see tables/skipped.md"
        complain(more, "left out: ", "yellow")
    show(f"{written.num_runs} run{'s' * (written.num_runs != 1)}, {len(written.files)} files")
    show(f"open it: {whole(written.page)}")


def run_quickstart(options: Quickstart) -> None:
    """Carry out `socrates quickstart`."""
    options.out.mkdir(parents=True, exist_ok=True)
    quickstart(options.out / "runs", console)
    written = make_report(
        (options.out / "runs",), options.out / "report", "Four losses on 300 handwritten digits"
    )
    for path in written.files:
        if path.name in ("reliability.png", "pareto-test.png"):
            show(f"picture: {whole(path)}")
    show_answers(written.answers)
    show_written(written)


def run_reproduce(options: Reproduce) -> None:
    """Carry out `socrates reproduce`."""
    seeds = parse_seeds(options.seeds) if options.seeds else None
    asked = {
        name: getattr(options, name)
        for name in ("scale", "dataset", "rule", "as_released", "precision", "out")
    }
    paper_plan = plan(options.names, settings=options.setting, seeds=seeds, **asked)
    if paper_plan.scale.note:
        show("", paper_plan.scale.note, "yellow")
    if options.dry_run:
        show_plan(paper_plan, options)
        return
    result = paper_plan.carry_out(StudyDisplay(console), options.width, **options.place)
    for name, paths in result.files.items():
        show(f", {paper_plan.recipes[name].what}:", f"\n{paper_plan.recipes[name].number}")
        for path in paths:
            if path.suffix == ".md" and console.is_terminal:
                console.print(NamedMarkdown(path.read_text(encoding="utf-8")))
            show(f"  {whole(path)}")
    if result.num_missing:
        show(
            "",
            f"{result.num_missing} of {len(paper_plan.runs)} runs are missing and left out",
            "red",
        )
    if result.failed:
        raise result.failed
    command = f"socrates report {paper_plan.folder / 'runs'}"
    show(f"\nsee all of it: {whole(command)}")
