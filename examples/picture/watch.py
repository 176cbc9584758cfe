"""Draws the picture of docs/control.md: what `ojs-init status --watch` shows during a drain.

A real ojs-init with a real worker has three active jobs at SIGTERM. Two finish, and the third is
cut off. The view runs in a terminal of tmux, and the picture has the text and the colours of that
terminal at four moments.

    make picture
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import List, Tuple

from shutdown import PATIENCE, ROOT, SETTINGS, ask, wait_until

sys.path.insert(0, str(ROOT / "examples/demo"))
from demo import namespace, only_child  # noqa: E402

# The report never ends. A mail takes its number of seconds, and the drain lasts 5 s.
JOBS = [
    ("report.build", []),
    ("email.send", [2.5, "a@example.com"]),
    ("email.send", [3.5, "b@example.com"]),
]

# Columns and lines of the terminal.
COLUMNS, LINES = 80, 16

# Width of a column and height of a line, in pixels.
WIDE, HIGH = 8, 18

# A colour or another attribute, as tmux writes it.
ATTRIBUTE = re.compile("\x1b\\[([0-9;]*)m")

# The colours that ojs-init uses, and their classes in the picture.
COLOURS = {"31": "bad", "32": "good", "33": "warn"}

STYLE = """\
.bg{fill:#fff}
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328;white-space:pre}
.heading{font-weight:bold}
.screen{fill:#f6f8fa;stroke:#8c959f;stroke-width:1}
.dim{fill:#59636e}.good{fill:#1a7f37}.warn{fill:#9a6700}.bad{fill:#cf222e}
@media (prefers-color-scheme:dark){
.bg{fill:#0d1117}
text{fill:#e6edf3}
.screen{fill:#161b22;stroke:#6e7681}
.dim{fill:#9198a1}.good{fill:#3fb950}.warn{fill:#d29922}.bad{fill:#ff7b72}
}"""

Moment = Tuple[str, List[str]]


class Terminal:
    """A terminal of tmux, with a server of its own."""

    def __init__(self, scratch: Path, command: List[str]) -> None:
        self.tmux = ["tmux", "-S", str(scratch / "tmux"), "-f", "/dev/null"]
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        # The terminal outlives the command, whose last line is then still there.
        shell = ["sh", "-c", '"$@"; exec sleep 60', "sh"]
        subprocess.run([*self.tmux, "new-session", "-d", *size, *shell, *command], check=True)

    def lines(self) -> List[str]:
        command = [*self.tmux, "capture-pane", "-e", "-p"]
        shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return shown.stdout.rstrip().splitlines()

    def close(self) -> None:
        subprocess.run([*self.tmux, "kill-server"], check=False)


def record(url: str, init: str, scratch: Path) -> List[Moment]:
    """The life of a worker up to its end, as the view shows it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OJS_")}
    environment = {**inherited, **SETTINGS, "OJS_URL": url, "OJS_RUNTIME_DIR": str(scratch)}
    container, _ = namespace()
    command = [*container, init, "--", sys.executable, str(ROOT / "examples/demo/worker.py")]
    nothing = subprocess.DEVNULL
    worker = subprocess.Popen(command, env=environment, stdin=nothing, stdout=nothing)
    view = None
    try:
        pid = only_child(worker.pid) if container else worker.pid
        wait_until("ojs-init listens", lambda: any(scratch.rglob("control.sock")))
        view = Terminal(scratch, [init, "--runtime-dir", str(scratch), "status", "--watch"])
        for kind, arguments in JOBS:
            ask(f"{url}/ojs/v1/jobs", {"type": kind, "args": arguments})

        def moment(caption: str, *words: str) -> Moment:
            shown: List[str] = []

            def is_shown() -> bool:
                shown[:] = view.lines()
                text = ATTRIBUTE.sub("", "\n".join(shown))
                return all(word in text for word in words)

            wait_until(f"the view shows {words}", is_shown)
            return caption, shown

        running = moment("Three jobs are active", "running", "3 of 3 active")
        os.kill(pid, signal.SIGTERM)
        drain, end = "terminate: drain", "ojs-init ends with status"
        return [
            running,
            moment("SIGTERM: the drain begins, and no new job is fetched", drain, "3 of 3 active"),
            moment("Two jobs have finished, one is left", drain, "1 of 3 active"),
            moment("The drain is over: the last job is cut off, and ojs-init ends", end),
        ]
    finally:
        if view:
            view.close()
        worker.kill()
        worker.wait()


def coloured(lines: List[str]) -> List[str]:
    """The lines with colours as classes. An attribute lasts beyond the end of its line."""
    is_dim, colour, drawn = False, "", []
    for line in lines:
        pieces = ATTRIBUTE.split(line)
        text = escape(pieces[0], quote=False)
        for attribute, piece in zip(pieces[1::2], pieces[2::2]):
            is_dim = attribute == "2" or is_dim and attribute != "0"
            colour = COLOURS.get(attribute, "" if attribute in {"0", "39"} else colour)
            look = colour or ("dim" if is_dim else "")
            piece = escape(piece, quote=False)
            text += f'<tspan class="{look}">{piece}</tspan>' if look and piece else piece
        drawn.append(text)
    return drawn


def draw(moments: List[Moment]) -> str:
    width = COLUMNS * WIDE + 40
    body, y = [], 10
    for caption, lines in moments:
        body.append(f'<text x="12" y="{y + 16}" class="heading">{escape(caption)}</text>')
        height = len(lines) * HIGH + 14
        place = f'x="10.5" y="{y + 26.5}" width="{width - 21}" height="{height}"'
        body.append(f'<rect {place} rx="6" class="screen"/>')
        for number, line in enumerate(coloured(lines)):
            if line:
                body.append(f'<text x="20" y="{y + 47 + number * HIGH}">{line}</text>')
        y += height + 46
    description = ". ".join(caption for caption, _ in moments)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" \
viewBox="0 0 {width} {y}" role="img" aria-labelledby="watch-title watch-description">
<title id="watch-title">ojs-init status --watch during a drain</title>
<desc id="watch-description">{escape(description)}</desc>
<style>
{STYLE}
</style>
<rect width="100%" height="100%" class="bg"/>
{chr(10).join(body)}
</svg>
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--init", required=True, help="path of ojs-init")
    parser.add_argument("--devserver", required=True, help="path of ojs-devserver")
    picture = ROOT / "docs/pictures/watch.svg"
    parser.add_argument("--out", type=Path, default=picture, help="the picture")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ojs-picture-") as scratch:
        port_file = Path(scratch) / "url"
        listen = ["--listen", "127.0.0.1:0", "--port-file", str(port_file)]
        backend = subprocess.Popen([options.devserver, "serve", *listen], stdout=subprocess.DEVNULL)
        try:
            wait_until("the backend listens", port_file.exists)
            moments = record(port_file.read_text().strip(), options.init, Path(scratch))
        finally:
            backend.terminate()
            backend.wait(PATIENCE)
    options.out.write_text(draw(moments))


if __name__ == "__main__":
    main()
