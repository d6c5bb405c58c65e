# SPDX-License-Identifier: BSD-2-Clause
"""On a terminal: the live view, and what else is said while it is on the screen."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import harness
from harness import Fixture, check, equal, start

FRAME_END = b"Ctrl-C: stop tracing"
# up to the frame's first line, and all below away
TAKEN_AWAY = re.compile(rb"\r(\x1b\[\d+A)?\x1b\[J")


class Terminal:
    """roletrace with a terminal of its own; all that it wrote there."""

    def __init__(self, *args, columns=100, lines=40):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        argv = [harness.ROLETRACE, *map(str, args), "-o", f"json:{harness.scratch()}/x.json"]
        self.process = start(argv, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        harness.at_end(lambda: os.close(ours))
        self.fd, self.text = ours, b""

    def read(self, enough, seconds=20):
        """Until enough(text), or its end."""
        end = time.monotonic() + seconds
        while not enough(self.text):
            left = end - time.monotonic()
            check(left > 0 and select.select([self.fd], [], [], left)[0], f"it said: {self.text[-800:]}")
            try:
                self.text += os.read(self.fd, 65536)
            except OSError:
                return  # the other end is closed


def test_messages_take_the_live_view_away():
    """Both are on the screen: a line in between would stay there, and the next frame be drawn over it."""
    f = Fixture("rates", 1, 2000)
    t = Terminal("--pid", f.pid, "-f", "traced_hot")
    t.read(lambda text: FRAME_END in text)
    f.say("go")
    t.read(lambda text: text.count(b"budget:") >= 1 and text.rfind(FRAME_END) > text.rfind(b"budget:"))
    t.process.send_signal(signal.SIGINT)
    t.read(lambda text: b"wrote " in text)
    equal(t.process.wait(20), 0, "exit code")
    shown = False
    for line in t.text.replace(b"\r\n", b"\n").split(b"\n"):
        shown = shown and not TAKEN_AWAY.search(line)
        check(not (shown and b"roletrace: " in line), f"said over the live view: {line}")
        shown |= FRAME_END in line
    check(b"lost: not_sampled " not in t.text or b"; not_sampled" not in t.text, "a loss is said once")
    check(t.text.count(FRAME_END) >= 2, "frames")
    f.say("quiesce")
    f.line()
    f.finish()
