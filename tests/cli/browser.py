# SPDX-License-Identifier: BSD-2-Clause
"""Headless Chromium, spoken to through its debugging pipe: pages as a person sees and uses them."""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

from checks import Failure, Skip, check

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
         "--remote-debugging-pipe"]


class Browser:
    """One page. Collects what the console says, exceptions, and every address that is asked for."""

    def __init__(self, width=1280, height=800):
        program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
        if not program:
            raise Skip("chromium is missing: the page was not looked at")
        self.keeper = tempfile.TemporaryDirectory(prefix="roletrace-browser-", ignore_cleanup_errors=True)
        ours, theirs = os.pipe(), os.pipe()  # to it, from it: its descriptors 3 and 4
        self.to, self.since = ours[1], b""
        self.of = theirs[0]
        # a shell moves the descriptors: nothing is run between fork and exec
        script = f"exec 3<&{ours[0]} 4>&{theirs[1]}; exec \"$@\""
        self.process = subprocess.Popen(
            ["bash", "-c", script, "sh", program, *FLAGS, f"--user-data-dir={self.keeper.name}", "about:blank"],
            pass_fds=(ours[0], theirs[1]), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        self.serial, self.said, self.asked, self.session = 0, [], [], None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (Failure, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.of)
        self.keeper.cleanup()

    def receive(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.since:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.of], [], [], left)[0]:
                return None
            part = os.read(self.of, 1 << 20)
            check(part, "the browser ended")
            self.since += part
        text, self.since = self.since.split(b"\0", 1)
        return json.loads(text)

    def note(self, message):
        method, p = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            d = p["exceptionDetails"]
            self.said.append(d.get("exception", {}).get("description", d["text"]))
        elif method == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
        elif method == "Log.entryAdded":
            self.said.append(p["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(p["request"]["url"])

    def call(self, method, **params):
        self.serial += 1
        message = {"id": self.serial, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(60)
            check(answer is not None, f"no answer to {method}")
            if answer.get("id") == self.serial:
                check("error" not in answer, f"{method}: {answer.get('error')}")
                return answer["result"]
            self.note(answer)

    def size(self, width, height, dark=None):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        if dark is not None:
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path):
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        self.until("document.readyState === 'complete'", f"{path} is loaded")

    def run(self, expression):
        """Its value; promises are awaited."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        check("exceptionDetails" not in done, f"{expression}: {done.get('exceptionDetails')}")
        return done["result"].get("value")

    def frame(self):
        """What was asked for is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def until(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while not self.run(condition):
            check(time.monotonic() < end, f"{what}: not within {seconds} s")
            time.sleep(0.05)

    def mouse(self, x, y, click=False):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.frame()

    def click(self, selector):
        box = self.run(f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); "
                       "return [b.x + b.width / 2, b.y + b.height / 2]; })()")
        self.mouse(*box, click=True)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.frame()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.frame()

    def screenshot(self, path):
        self.frame()
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
