"""What axe-core finds on a page."""

from tests.system.explorer.browser import Tab

_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN = """async (tags) => {
  const found = await axe.run({runOnly: {type: "tag", values: tags}, resultTypes: ["violations"]})
  return found.violations.flatMap(({id, nodes}) =>
    nodes.map(({html, failureSummary}) => `${id}: ${html.slice(0, 200)}: ${failureSummary}`))
}"""


def violations(tab: Tab) -> list[str]:
    """Return the violations of WCAG 2.2 AA and of best practice on the page as it is now."""
    # Only the system tests have the package.
    from axe_playwright_python.base import AXE_SCRIPT  # noqa: PLC0415

    if not tab.value("() => 'axe' in window"):
        tab.value(AXE_SCRIPT)
    found: list[str] = tab.value(_RUN, _TAGS)
    return found
