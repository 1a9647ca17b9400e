#!/usr/bin/env python3
"""A page of `damrak report` in headless Chromium, driven by Playwright.

usage: report_page.py PAGE PICTURE

Holds if the console has no error, nothing was asked for over the network, and every chart was drawn with a trace
for each that its figure has. PICTURE is what a person sees. The last line is the outcome.
"""

import json
import pathlib
import shutil
import sys

from playwright.sync_api import sync_playwright

BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


def browser():
    """The path of an installed browser, or nothing."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def check(page_file, picture):
    url = pathlib.Path(page_file).resolve().as_uri()
    errors, requests = [], []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(url)
        figures = json.loads(page.locator("#figures").text_content())
        for figure in figures:
            chart = page.locator(f"#{figure['id']}")
            chart.locator("svg.main-svg").first.wait_for(state="visible")
            drawn = chart.evaluate("it => it.calcdata.filter(trace => trace.length > 0).length")
            if drawn != len(figure["data"]):
                errors.append(f"{figure['id']}: {drawn} of {len(figure['data'])} traces are drawn")
        page.screenshot(path=picture, full_page=True)
        chromium.close()
    foreign = [it for it in requests if it != url and not it.startswith(("data:", "blob:"))]
    if foreign:
        errors.append(f"requests: {foreign}")
    return {"ok": not errors, "why": "; ".join(errors), "charts": len(figures)}


if __name__ == "__main__":
    outcome = check(*sys.argv[1:3])
    print(json.dumps(outcome))
    sys.exit(0 if outcome["ok"] else 1)
