"""`selfattn page` under load, or on a picture.

    python -m benchmarks.page srl-en-small "The cat chased a mouse." "" last
    python -m benchmarks.page srl-en-small "The cat chased a mouse." --screenshot docs/page.png

starts the page of a model and asks it the same from many clients at a time, by Gradio's own API:
what stands in the boxes, in their order, and the layer. It prints how many answers and errors there
were, and the server's memory before and after. With --screenshot, a Chromium of the system types
the texts instead.
"""

import argparse
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from selfattn.errors import needed
from selfattn_experiments.machine import facts
from selfattn_tasks.cli import run

from .table import origin


def asked(url: str, typed: list[str], ready: Barrier, seconds: float) -> tuple[int, list[str]]:
    """How many answers one client got, after a first one of each client, and the errors."""
    patient = {"timeout": 600}  # to wait for one's turn is no error
    make = needed("gradio_client").Client
    client = make(url, verbose=False, analytics_enabled=False, httpx_kwargs=patient)
    errors: list[str] = []

    def ask() -> None:
        try:
            answer, picture = client.predict(*typed, api_name="/answer")
            if not answer or "<img" not in picture:
                errors.append(picture)
        except Exception as error:  # whatever a server under load does
            errors.append(repr(error))

    ask()
    ready.wait()
    count, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        ask()
        count += 1
    return count, errors


def load(url: str, process: int, args: argparse.Namespace) -> None:
    """Ask for a while from all clients, and print what came."""
    memory = needed("psutil").Process(process).memory_info
    ready = Barrier(args.clients + 1)
    with ThreadPoolExecutor(args.clients) as pool:
        each = [
            pool.submit(asked, url, args.typed, ready, args.seconds) for _ in range(args.clients)
        ]
        ready.wait()
        sizes = [memory().rss]
        for _ in range(4):
            time.sleep(args.seconds / 4)
            sizes.append(memory().rss)
        rows = [row.result() for row in each]
        sizes.append(memory().rss)
    errors = [error for _, found in rows for error in found]
    answers = sum(count for count, _ in rows)
    print(f"- {args.clients} clients, {args.seconds} s: {answers} answers, {len(errors)} errors")
    print("- MiB before, at each quarter, after the last:", *(f"{s / 2**20:.0f}" for s in sizes))
    print(*(f"- {error}" for error in dict.fromkeys(errors)), sep="\n")
    machine = facts("cpu")
    print("\n" + origin(machine, int(machine["cores"])))


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
        page.wait_for_selector("img[alt^=attention]", timeout=120_000)
        page.wait_for_timeout(1000)
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
