"""How our panels look: a query, a panel, the variables that every dashboard has."""

from typing import Any

from grafana_foundation_sdk.builders import (
    bargauge,
    dashboard,
    prometheus,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
RUNBOOK = "/public/gemhooks/runbook.md"  # which docker-compose.yml puts there
Line = tuple[str, str]  # a query and its legend


def target(line: Line, ref: str, *, instant: bool = False) -> Any:
    query = prometheus.Dataquery().expr(line[0]).legend_format(line[1]).ref_id(ref)
    return (query.instant() if instant else query.range()).datasource(SOURCE)


def _described(panel: Any, title: str, text: str, unit: str, *, span: int, height: int) -> Any:
    described = panel.title(title).description(text).unit(unit).datasource(SOURCE)
    return described.span(span).height(height)


def _with(panel: Any, lines: tuple[Line, ...], *, instant: bool) -> Any:
    for number, line in enumerate(lines):
        panel = panel.with_target(target(line, chr(ord("A") + number), instant=instant))
    return panel


def graph(title: str, text: str, unit: str, *lines: Line, span: int = 8) -> Any:
    """Lines over time, with a table of their last values below."""
    legend = common.VizLegendOptions(
        display_mode=common.LegendDisplayMode.LIST,
        placement=common.LegendPlacement.BOTTOM,
        show_legend=True,
        calcs=[],
    )
    panel = _described(timeseries.Panel(), title, text, unit, span=span, height=8)
    panel = panel.line_width(1).fill_opacity(8).min(0)
    return _with(panel.legend(_Given(legend)), lines, instant=False)


def number(title: str, text: str, unit: str, line: Line, *steps: tuple[float, str]) -> Any:
    """One number that is green, and from each of *steps* on has that colour."""
    panel = _described(stat.Panel(), title, text, unit, span=4, height=4)
    colours = [model.Threshold(value=None, color="green")]
    colours += [model.Threshold(value=value, color=colour) for value, colour in steps]
    thresholds = model.ThresholdsConfig(mode=model.ThresholdsMode.ABSOLUTE, steps=colours)
    panel = panel.thresholds(_Given(thresholds)).graph_mode(common.BigValueGraphMode.AREA)
    return _with(panel, (line,), instant=False)


def bars(title: str, text: str, unit: str, *lines: Line, span: int = 8) -> Any:
    """The present values side by side."""
    panel = _described(bargauge.Panel(), title, text, unit, span=span, height=8)
    return _with(panel.min(0), lines, instant=True)


def rows(title: str, text: str, unit: str, *lines: Line, span: int = 8) -> Any:
    panel = _described(table.Panel(), title, text, unit, span=span, height=8)
    return _with(panel, lines, instant=True)


class _Given:
    """A finished part where the SDK wants the builder of one."""

    def __init__(self, part: Any) -> None:
        self._part = part

    def build(self) -> Any:
        return self._part


def empty(title: str, uid: str, text: str) -> dashboard.Dashboard:
    """A dashboard with what all of ours have, and nothing else yet."""
    variable = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    link = dashboard.DashboardLink("Runbook").type(model.DashboardLinkType.LINK)
    others = dashboard.DashboardLink("gemhooks").type(model.DashboardLinkType.DASHBOARDS)
    return (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(text)
        .tags(["gemhooks"])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .readonly()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(link.url(RUNBOOK).icon("doc").target_blank(True))  # noqa: FBT003 - the SDK's way
        .link(others.tags(["gemhooks"]).as_dropdown(True).keep_time(True))  # noqa: FBT003
        .with_variable(variable)
    )


def choice(name: str, label: str, query: str) -> dashboard.QueryVariable:
    """A variable whose values Prometheus knows; all of them unless somebody chooses."""
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(True)  # noqa: FBT003
        .include_all(True)  # noqa: FBT003
        .all_value(".+")
    )
