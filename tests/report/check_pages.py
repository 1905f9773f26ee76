"""Opens every report of a folder in a browser, in a small and a large window, in light and dark colours.

Arguments: the folder of the reports, and the folder for screenshots. Fails if a figure is not drawn, if a page is wider
than its window, if text has too little contrast, or if a page requests anything from the network.
"""

import pathlib
import shutil
import sys

from playwright.sync_api import sync_playwright

# The width and height of each window, in pixels.
WINDOWS = {"phone": (360, 740), "desk": (1280, 900)}
# The minimum contrast ratio of text in the Web Content Accessibility Guidelines.
CONTRAST_MIN = 4.5

# JavaScript that returns the state of each figure: its title, the texts that the report marks as unknown, the number of
# lines and bars with a visible size, and as `inside` whether the drawing is larger than 200 by 50 pixels.
FIGURES = """() => [...document.querySelectorAll("figure")].map((figure) => {
  const svg = figure.querySelector("svg");
  const marks = svg ? [...svg.querySelectorAll("polyline, rect, path")] : [];
  const drawn = marks.filter((mark) => {
    const box = mark.getBoundingClientRect();
    return box.width > 0 || box.height > 0;
  });
  const box = svg && svg.getBoundingClientRect();
  return {
    title: figure.querySelector("figcaption").textContent.trim(),
    unknown: [...figure.querySelectorAll(".unknown")].map((element) => element.textContent).join(" "),
    drawn: drawn.length,
    inside: !!box && box.width > 200 && box.height > 50,
  };
})"""

# JavaScript that returns the lowest contrast ratio of the page's text.
CONTRAST = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map((part) => {
      const share = part / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const page = getComputedStyle(document.body).backgroundColor;
  const seen = [ratio(getComputedStyle(document.body).color, page)];
  for (const figure of document.querySelectorAll("figure")) {
    const card = getComputedStyle(figure).backgroundColor;
    for (const text of figure.querySelectorAll("text")) seen.push(ratio(getComputedStyle(text).fill, card));
  }
  return Math.min(...seen);
}"""


def check_page(page, path, width):
    """Returns the problems of a page, each as a text, and the number of its drawn figures."""
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    wrong = [f"requests {url}" for url in requests if not url.startswith("file:")]
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        wrong.append(f"is {wide} pixels wide in a window of {width} pixels")
    figures = page.evaluate(FIGURES)
    if path.name == "report.html" and not figures:
        wrong.append("has no figures, but a report needs at least one")
    for figure in figures:
        if figure["drawn"] < 2 or not figure["inside"]:
            wrong.append(f"has not drawn {figure['title']!r}: {figure}")
        if figure["unknown"]:
            wrong.append(f"has an unknown value in {figure['title']!r}: {figure['unknown']}")
    contrast = page.evaluate(CONTRAST)
    if contrast < CONTRAST_MIN:
        wrong.append(f"has text with a contrast ratio of {contrast:.1f}, below {CONTRAST_MIN}")
    return wrong, sum(figure["drawn"] > 1 for figure in figures)


def main():
    folder, pictures = map(pathlib.Path, sys.argv[1:])
    pages = sorted([*folder.glob("*/report.html"), folder / "index.html"])
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    failed, drawn = [], 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for window, (width, height) in WINDOWS.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
                for path in pages:
                    page = context.new_page()
                    wrong, figures = check_page(page, path, width)
                    name = path.parent.name if path.name == "report.html" else "index"
                    failed += [f"{name}, {window}, {scheme}: the page {problem}" for problem in wrong]
                    drawn += figures
                    place = pictures / f"{name}-{window}-{scheme}.png"
                    place.parent.mkdir(parents=True, exist_ok=True)
                    page.screenshot(path=place, full_page=True)
                    page.close()
                context.close()
        browser.close()
    print("\n".join(failed))
    print(f"{len(pages)} pages, each in 4 windows, {drawn} figures drawn, {len(failed)} problems")
    sys.exit(bool(failed) or not drawn)


main()
