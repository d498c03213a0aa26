# SPDX-License-Identifier: Apache-2.0
"""A real browser without a window, driven over the DevTools protocol through a pair of pipes: no library is needed.

Everything that a page must not do is kept: `console` has its errors and uncaught exceptions, `violations` what the
content security policy stopped."""
import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class Failure(Exception):
    """What was waited for did not come, or the browser refused."""


class Browser:
    def __init__(self):
        program = next((path for path in map(shutil.which, PROGRAMS) if path), None)
        if not program:
            raise Failure("no chromium: sh docker/packages.sh test")
        self.profile = tempfile.mkdtemp(prefix="warptune-browser.")
        down_read, self.down = os.pipe()
        self.up, up_write = os.pipe()
        # The browser reads commands from descriptor 3 and writes answers to 4.
        shell = f'exec "$0" "$@" 3<&{down_read} 4>&{up_write}'
        flags = ["--headless", "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "--no-first-run",
                 "--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking",
                 "--hide-scrollbars", "--force-color-profile=srgb", "--lang=en-US"]
        self.process = subprocess.Popen(["bash", "-c", shell, program, *flags, "about:blank"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        pass_fds=(down_read, up_write))
        os.close(down_read)
        os.close(up_write)
        self.answers, self.number, self.lock = {}, 0, threading.Lock()
        self.console, self.violations, self.requests, self.dialogs = [], [], [], 0
        self.on_request = None  # gets each request to /v1 held back; says how to go on
        self.events = queue.Queue()
        self.session = None
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._work, daemon=True).start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits", "DOM"):
            self.call(f"{domain}.enable")

    def close(self):
        try:
            self.call("Browser.close", in_page=False)
            self.process.wait(10)
        except (Failure, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    # ---- the protocol ----

    def call(self, method, in_page=True, **params):
        with self.lock:
            self.number += 1
            number = self.number
            self.answers[number] = answer = queue.Queue()
            message = {"id": number, "method": method, "params": params}
            if in_page and self.session:
                message["sessionId"] = self.session
            os.write(self.down, json.dumps(message).encode() + b"\0")
        try:
            got = answer.get(timeout=60)
        except queue.Empty:
            raise Failure(f"{method}: no answer") from None
        if "error" in got:
            raise Failure(f"{method}: {got['error']['message']}")
        return got["result"]

    def _read(self):
        rest = b""
        while piece := os.read(self.up, 1 << 16):
            *messages, rest = (rest + piece).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self.answers.pop(message["id"]).put(message)
                else:
                    self.events.put(message)

    def _work(self):
        """What happens in the page; answering may need calls of its own, so it is not done where answers are read."""
        while True:
            event = self.events.get()
            name, params = event["method"], event["params"]
            if name == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.console.append(details.get("exception", {}).get("description", details["text"]))
            elif name == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                self.console.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in params["args"]))
            elif name == "Log.entryAdded" and params["entry"]["level"] == "error":
                # A refusal that a page asks for is logged as well: those the test judges by what the page shows.
                if params["entry"]["source"] != "network":
                    self.console.append(params["entry"]["text"])
            elif name == "Audits.issueAdded" and params["issue"]["code"] == "ContentSecurityPolicyIssue":
                self.violations.append(json.dumps(params["issue"]["details"]))
            elif name == "Network.requestWillBeSent":
                self.requests.append(params["request"])
            elif name == "Fetch.requestPaused":
                self._go_on(params)

    def _go_on(self, params):
        answer = self.on_request and self.on_request(params["request"])
        if not answer:
            self.call("Fetch.continueRequest", requestId=params["requestId"])
            return
        status, content_type, body = answer
        self.call("Fetch.fulfillRequest", requestId=params["requestId"], responseCode=status,
                  responseHeaders=[{"name": "Content-Type", "value": content_type}],
                  body=base64.b64encode(body.encode()).decode())

    # ---- what a test says ----

    def hold_requests(self, on_request):
        """on_request(request) gives None to let it pass, or (status, content type, body) to answer in its place."""
        self.on_request = on_request
        if on_request:
            self.call("Fetch.enable", patterns=[{"urlPattern": "*/v1/*"}])
        else:
            self.call("Fetch.disable")

    def js(self, expression):
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True,
                        userGesture=True)
        if "exceptionDetails" in got:
            raise Failure(f"{expression}: {got['exceptionDetails'].get('exception', {}).get('description')}")
        return got["result"].get("value")

    def wait(self, what, expression, seconds=30):
        """Until the expression is true; gives its value."""
        end = time.monotonic() + seconds
        while not (value := self.js(expression)):
            if time.monotonic() > end:
                raise Failure(f"{what}: not after {seconds} s; the page says: {self.js('document.body.innerText')[:1500]}")
            time.sleep(0.05)
        return value

    def open(self, url):
        """Loads it anew, even where only what follows '#' differs."""
        for address in ("about:blank", url):
            self.js("window.left = true")
            self.call("Page.navigate", url=address)
            self.wait(address, "!window.left && document.readyState === 'complete'")

    def place(self, selector):
        """The middle of an element, brought into sight, once it stays where it is."""
        return self.js(f"""(async () => {{
            const at = () => {{ const e = document.querySelector({json.dumps(selector)});
                e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();
                return [r.x + r.width / 2, r.y + r.height / 2]; }};
            for (let before = at(); ;) {{
                await new Promise((done) => setTimeout(done, 60));
                const now = at();
                if (String(now) === String(before)) return now;
                before = now;
            }} }})()""")

    def click(self, selector):
        self.wait(selector, f"!!document.querySelector({json.dumps(selector)})")
        x, y = self.place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, selector, text):
        """Replaces what is in a field, by keys."""
        self.js(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.focus(); e.select(); }})()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.press("Delete")

    def choose(self, selector, value):
        self.js(f"""(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};
            e.dispatchEvent(new Event('change', {{bubbles: true}})); }})()""")

    def press(self, key, text=None):
        code = {"Enter": 13, "Tab": 9, "Escape": 27, "Delete": 46}.get(key, 0)
        extra = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      **(extra if kind == "keyDown" else {}))

    def pick_files(self, selector, paths):
        node = self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")
        self.call("DOM.setFileInputFiles", objectId=node["result"]["objectId"], files=paths)

    def drop_files(self, selector, paths):
        x, y = self.place(selector)
        data = {"items": [], "files": paths, "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    def look(self, width, height=900, scheme="light", scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        got = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                        clip={"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 4000), "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(got["data"]))

    def tree(self):
        """The accessibility tree: [(role, name)] of what is not ignored."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
