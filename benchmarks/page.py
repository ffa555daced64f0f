"""`selfattn page` under load, or on a picture.

    python -m benchmarks.page runs/srl "The cat chased a mouse." "" last
    python -m benchmarks.page runs/srl "The cat chased a mouse." --screenshot docs/page.png

starts the page of a model and asks it the same from many clients at a time, by Gradio's own API:
what stands in the boxes, in their order, and the layer. It prints how many answers and errors there
were, and the server's memory before and after. With --screenshot, a Chromium of the system types
the texts instead.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from selfattn.errors import needed
from selfattn_experiments.machine import facts
from selfattn_tasks.cli import run


def asked(url: str, typed: list[str], until: float) -> tuple[list[float], list[str]]:
    """Seconds that each answer to one client took until the time is up, and the errors."""
    seconds: list[float] = []
    errors: list[str] = []
    client = needed("gradio_client").Client(url, verbose=False, analytics_enabled=False)
    while (start := time.monotonic()) < until:
        try:
            answer, picture = client.predict(*typed, api_name="/answer")
            if not answer or "<img" not in picture:
                errors.append(picture)
        except Exception as error:  # whatever a server under load does
            errors.append(repr(error))
        seconds.append(time.monotonic() - start)
    return seconds, errors


def load(url: str, process: int, args: argparse.Namespace) -> None:
    """Ask for a while from all clients, and print what came."""
    memory = needed("psutil").Process(process).memory_info
    asked(url, args.typed, time.monotonic() + 5)
    sizes = [memory().rss]
    until = time.monotonic() + args.seconds
    with ThreadPoolExecutor(args.clients) as pool:
        rows = [pool.submit(asked, url, args.typed, until) for _ in range(args.clients)]
        for left in (0.5, 0):
            time.sleep(max(0, until - left * args.seconds - time.monotonic()))
            sizes.append(memory().rss)
        seconds = sorted(second for row in rows for second in row.result()[0])
        errors = [error for row in rows for error in row.result()[1]]
    print(f"{args.clients} clients, {args.seconds} s: {len(seconds)} answers, {len(errors)} errors")
    print(f"seconds an answer: median {seconds[len(seconds) // 2]:.2f}, longest {seconds[-1]:.2f}")
    print("MiB before, half-way, after:", *(f"{size / 2**20:.0f}" for size in sizes))
    print(*(f"{name}: {value}" for name, value in facts("cpu").items() if value), sep="\n")
    print(*dict.fromkeys(errors), sep="\n")


def screenshot(url: str, texts: list[str], path: Path) -> None:
    """Type the texts into the page, and take a picture of the answer."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with needed("playwright.sync_api", "playwright").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(url)
        for number, text in enumerate(texts):
            page.get_by_role("textbox").nth(number).fill(text)
        page.get_by_role("button", name="Go", exact=True).click()
        page.wait_for_selector("img[alt]")
        page.screenshot(path=path, full_page=True)


def main() -> None:
    """Serve the model until the measurement or the picture is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("typed", nargs="+")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--screenshot", type=Path)
    args = parser.parse_args()
    command = [sys.executable, "-m", "selfattn_experiments", "page", args.model]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            if args.screenshot:
                screenshot(url, args.typed, args.screenshot)
            else:
                load(url, server.pid, args)
        finally:
            server.terminate()


if __name__ == "__main__":
    run(main, "benchmarks.page")
