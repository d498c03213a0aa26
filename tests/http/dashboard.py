# SPDX-License-Identifier: Apache-2.0
"""What test_dashboard.sh does in the browser.

usage: dashboard.py URL NETWORK.onnx FOLDER"""
import json
import os
import pathlib
import shutil
import socket
import sys
import threading
import time
import traceback
import urllib.parse

from browser import Browser, Failure

SERVER, NETWORK, FOLDER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
PICTURES = os.environ.get("DASHBOARD_PICTURES")
SCRIPT_NAME = "<img src=x onerror=alert(1)>"  # a model's
HELPERS = pathlib.Path(__file__).with_name("dashboard_checks.js").read_text()
passed = failed = 0


def ok(name, condition, more=""):
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print(f"not ok: {name} {more}")


class Proxy:
    """Between browser and server, so that the connection between them can be cut."""

    def __init__(self, host, port):
        self.server, self.pairs, self.refusing = (host, port), [], False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            if self.refusing:
                client.close()
                continue
            server = socket.create_connection(self.server)
            self.pairs += [client, server]
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=ends, daemon=True).start()

    @staticmethod
    def _pass(source, sink):
        try:
            while piece := source.recv(1 << 16):
                sink.sendall(piece)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        self.refusing = True
        for end in self.pairs:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.pairs = []

    def mend(self):
        self.refusing = False


where = urllib.parse.urlsplit(SERVER)
proxy = Proxy(where.hostname, where.port)
browser = Browser()
js, wait, click = browser.js, browser.wait, browser.click


def go(page, heading):
    js(f"location.hash = {json.dumps('#/' + page)}")
    wait(page, f"document.querySelector('h1')?.textContent === {json.dumps(heading)}")


def see(text, seconds=30):
    wait(f"'{text}'", f"document.getElementById('main').innerText.includes({json.dumps(text)})", seconds)


def press_button(text, within="document"):
    wait(f"button {text}", f"!!({within}).querySelector && [...({within}).querySelectorAll('button, a.button')]"
         f".some((e) => e.textContent === {json.dumps(text)} && e.checkVisibility())")
    js(f"[...({within}).querySelectorAll('button, a.button')].find((e) => e.textContent === {json.dumps(text)} && "
       "e.checkVisibility()).setAttribute('data-aim', '')")
    click("[data-aim]")
    js("document.querySelector('[data-aim]')?.removeAttribute('data-aim')")


def state():
    return js("document.querySelector('.heading .badge')?.textContent")


def wait_state(name, seconds=120):
    wait(f"state {name}", f"document.querySelector('.heading .badge')?.textContent === '{name}'", seconds)


# ---- the steps ----

def first_visit():
    see("No jobs yet")
    press_button("Upload a model", "document.getElementById('main')")
    see("No models yet")
    go("new", "New job")
    see("A job tunes the layers of a network")
    go("configs", "Configurations")
    see("No configurations yet")
    go("devices", "Devices and workers")
    wait("a device", "document.querySelectorAll('.cards .card').length === 1")
    see("idle")
    go("nowhere", "Not found")


def uploads():
    go("models", "Models")
    network = FOLDER / f"{SCRIPT_NAME}.onnx"
    shutil.copy(NETWORK, network)
    browser.drop_files(".drop", [str(network)])
    see("is uploaded")
    wait("a row", "!!document.querySelector('tbody a')")
    ok("the name is text in the table", js("document.querySelector('tbody a').textContent") == SCRIPT_NAME)
    ok("and makes no element", js("document.querySelector('#main img') === null"))
    browser.pick_files("#file", [str(network)])
    see("was there already")
    broken = FOLDER / "broken.onnx"
    broken.write_bytes(b"\xff" * 40)
    browser.pick_files("#file", [str(broken)])
    see("broken.onnx was refused.")
    ok("why is said", js("document.querySelector('.uploads .alert p').textContent.length > 10"))
    js("document.querySelector('tbody a').click()")
    see("Best known")
    ok("its tasks", js("document.querySelectorAll('tbody tr').length") == 3)
    ok("its name is the heading", js("document.querySelector('h1').textContent") == SCRIPT_NAME)


def error_at(name):
    """The text of the error beside a field; the field must be marked, lead to it, and have the focus."""
    return js(f"""(() => {{ const e = document.querySelector('[name="{name}"]');
        const text = document.getElementById(e.getAttribute('aria-describedby').split(' ')[0]).textContent;
        return e.getAttribute('aria-invalid') === 'true' && document.activeElement === e && e.checkVisibility() ? text : ''; }})()""")


def submit(trials):
    """The form, filled in and sent."""
    browser.choose("[name='device']", '"cpu"')
    browser.choose("[name='tuner.name']", '"random"')
    browser.type("[name='tuner.trials']", str(trials))
    js("document.querySelector('form details').open = true")
    browser.type("[name='measure.repeat']", "1")
    browser.type("[name='measure.min_repeat_ms']", "0")
    press_button("Submit the job")


def form():
    press_button("Tune it", "document.getElementById('main')")
    wait("the form", "!!document.querySelector('[name=\"tuner.trials\"]')")
    browser.type("[name='tuner.trials']", "0")
    press_button("Submit the job")
    wait("an error", "!!document.querySelector('[aria-invalid]')")
    ok("error at its field", "1000000" in error_at("tuner.trials"), error_at("tuner.trials"))
    browser.type("[name='tuner.trials']", "many")
    press_button("Submit the job")
    wait("the next", "document.getElementById('field-tuner-trials-error').textContent.includes('integer') || "
         "document.getElementById('field-tuner-trials-error').textContent.includes('number')")
    browser.type("[name='tuner.trials']", "4")
    js("document.querySelector('form details').open = true")
    browser.type("[name='measure.timeout_s']", "-1")
    js("document.querySelector('form details').open = false")
    press_button("Submit the job")
    wait("an error in the fold", "!!document.querySelector('details[open] [aria-invalid]')")
    ok("error in the fold", error_at("measure.timeout_s") != "")
    ok("one error at a time", js("document.querySelectorAll('[aria-invalid]').length") == 1)
    browser.type("[name='measure.timeout_s']", "")


def a_job():
    js("window.mark = 'not loaded again'")
    submit(4)
    wait("its page", "location.hash.startsWith('#/jobs/')")
    wait_state("running", 60)
    wait("a trial", "document.querySelector('.chart').getAttribute('aria-label')?.includes('after')", 90)
    ok("buttons of a running job", js("[...document.querySelectorAll('#main > .actions button')].map((e) => e.textContent).join()") ==
       "Pause,Cancel")
    before = len(browser.requests)
    proxy.cut()
    see("connection lost")
    ok("cut: the page stays", state() == "running")
    proxy.mend()
    wait("live again", "document.querySelector('.heading [role=status]').textContent === 'live'")
    again = [request for request in browser.requests[before:] if "/events" in request["url"]]
    ok("Last-Event-ID", again and int(again[-1]["headers"].get("Last-Event-ID", 0)) > 0, again)
    wait_state("succeeded", 180)
    see("Result")
    ok("never loaded again", js("window.mark") == "not loaded again")
    for number in range(3):
        click(f".scroll tbody tr:nth-child({number + 1}) button.link")
        wait(f"task {number}: all trials are in the chart", "document.querySelector('.chart').getAttribute('aria-label').includes('after 4 trials')")
    ok("layers", js("document.querySelectorAll('[aria-label=Results] tbody tr').length") == 3)
    ok("no buttons", js("document.querySelectorAll('#main > .actions button').length") == 0)
    ok("files", js("[...document.querySelectorAll('#main a[href*=\"/v1/jobs/\"]')].length") == 8)
    ok("the module", js("""fetch(document.querySelector('a[href$="module?format=so"]').href).then((r) => r.status)""") == 200)
    js("document.querySelector('#main > details').open = true")
    see("3 tasks to tune")
    return js("location.hash.split('/').pop()")


def moves():
    go("jobs", "Jobs")
    wait("the job in the list", "document.querySelector('tbody .badge')?.textContent === 'succeeded'")
    ok("its model's name is text", js("document.querySelector('tbody a').textContent") == SCRIPT_NAME)
    js("[...document.querySelectorAll('.tabs a')].find((e) => e.textContent === 'failed').click()")
    see("No jobs here")
    go("new", "New job")
    wait("the form", "!!document.querySelector('[name=\"tuner.trials\"]')")
    submit(5000)
    wait_state("running", 60)
    press_button("Pause")
    wait_state("paused")
    press_button("Resume")
    wait_state("running")
    job = js("location.hash")
    go("devices", "Devices and workers")
    wait("what the device does", f"document.querySelector('.card a')?.getAttribute('href') === '{job}'", 60)
    go("models", "Models")
    press_button("Delete")
    press_button("Keep it", "document.querySelector('dialog[open]')")
    press_button("Delete")
    press_button("Delete", "document.querySelector('dialog[open]')")
    wait("a refusal, as a job uses it", "!!document.querySelector('.uploads .alert')")
    js(f"location.hash = '{job}'")
    wait_state("running")
    press_button("Cancel")
    wait_state("cancelled")
    press_button("Retry")
    wait("taken up again", "['queued', 'running'].includes(document.querySelector('.heading .badge').textContent)")
    wait_state("running", 60)
    press_button("Cancel")
    wait_state("cancelled")


def configurations():
    go("configs", "Configurations")
    wait("rows", "document.querySelectorAll('tbody tr').length === 3")
    browser.type("[name='words']", "16X16x3x3 direct")
    wait("one row", "document.querySelectorAll('tbody tr').length === 1")
    workload = js("document.querySelector('.workload').title")
    press_button("Look it up")
    wait("what is missing", "!!document.querySelector('[aria-invalid]')")
    ok("missing", error_at("workload") != "")
    browser.type("[name='workload']", "conv2d(")
    browser.type("[name='device']", js("document.querySelector('#devices option').value"))
    press_button("Look it up")
    wait("no workload", "document.getElementById('field-workload-error').textContent.length > 0")
    browser.type("[name='workload']", workload)
    browser.press("Enter", "\r")
    wait("the answer", "document.querySelector('form .badge')?.textContent === 'exact'")
    ok("export", js("fetch(document.querySelector('a[href*=export]').href).then((r) => r.text()).then((t) => t.trim().split('\\n').length)") == 3)


def five_thousand(job):
    """A long search: what is drawn does not grow with it, and not each event is drawn."""
    events = "".join(f"id: {n + 1}\nevent: trial\ndata: {json.dumps({'task': 0, 'number': n, 'index': n, 'error_no': 0 if n % 7 else 4, 'cost_us': 50 + 5000 / (n + 1) + n % 90})}\n\n"
                     for n in range(5000))
    browser.hold_requests(lambda request: (200, "text/event-stream", f"retry: 1000\n\n{events}event: end\ndata: {{}}\n\n")
                          if "/events" in request["url"] else None)
    js("""window.draws = 0; new MutationObserver(() => window.draws++).observe(document.getElementById('main'),
        {subtree: true, attributes: true, attributeFilter: ['aria-label']})""")
    js(f"location.hash = '#/jobs/{job}'")
    wait("all trials", "document.querySelector('.chart')?.getAttribute('aria-label')?.includes('after 5000 trials')")
    ok("few elements", js("document.querySelectorAll('.chart *').length") < 60)
    ok("few draws", js("window.draws") < 100, js("window.draws"))
    ok("dots thinned", js("document.querySelector('.dots').getAttribute('d').split('M').length") < 3000)
    ok("failures counted", js("document.querySelector('.key.failed').textContent") == "715 failed")
    browser.hold_requests(None)


def signing_in(job):
    """The first token closes the server: from then on it asks for one."""
    token = js("fetch('/v1/tokens', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: "
               "JSON.stringify({name: 'browser', scopes: ['admin']})}).then((r) => r.json()).then((t) => t.token)")
    time.sleep(3.2)  # for that long a server may believe that there is none
    browser.open(f"{proxy.url}/#/jobs/{job}")
    wait("the box", "document.getElementById('sign-in')?.open")
    ok("focus in the box", js("document.activeElement.id") == "sign-in-token")
    browser.type("#sign-in-token", "wt_wrong")
    browser.press("Enter", "\r")
    wait("it says that it is wrong", "document.getElementById('sign-in-error').textContent.includes('does not take') && document.getElementById('sign-in').open")
    browser.type("#sign-in-token", token)
    before = len(browser.requests)
    browser.press("Enter", "\r")
    wait("signed in", "document.getElementById('token').textContent === 'Signed in'")
    wait_state("succeeded")
    wait("the events", "document.querySelector('.chart')?.getAttribute('aria-label')?.includes('after 4 trials')")
    sent = [request["headers"].get("Authorization") for request in browser.requests[before:] if "/v1/" in request["url"]]
    see("Result")
    ok("each request has the token", sent and set(sent) == {f"Bearer {token}"}, sent)
    ok("kept in the tab alone", js(f"sessionStorage.getItem('warptune.token') === '{token}' && localStorage.length === 0 && !document.cookie"))
    ok("the field is empty", js("document.getElementById('sign-in-token').value") == "")
    js("window.saved = ''; HTMLAnchorElement.prototype.click = function () { window.saved = `${this.protocol} ${this.download}`; }")
    press_button("Configurations", "document.getElementById('main')")
    wait("a file with the token", "window.saved.startsWith('blob: ') && window.saved.endsWith('-config.json')")
    click("#token")
    press_button("Forget it", "document.querySelector('dialog[open]')")
    wait("asked again", "document.getElementById('sign-in').open && sessionStorage.length === 0")
    browser.press("Escape")


def keyboard():
    browser.open(f"{proxy.url}/#/jobs")
    see("succeeded")
    browser.press("Tab")
    ok("first: past the menu", js("document.activeElement.className") == "skip")
    browser.press("Enter", "\r")
    ok("the content has the focus", js("document.activeElement.id") == "main")
    for _ in range(8):
        browser.press("Tab")
    ok("then the table", js("document.activeElement.getAttribute('role')") == "region", js("document.activeElement.outerHTML")[:100])
    browser.press("Tab")
    browser.press("Enter", "\r")
    wait("the job by key", "location.hash.startsWith('#/jobs/')")


def looks(job, model):
    pages = {"jobs": "jobs", "job": f"jobs/{job}", "models": "models", "model": f"models/{model}", "new": "new",
             "configs": "configs", "devices": "devices"}
    browser.call("Accessibility.enable")
    for scheme, width in (("light", 1200), ("dark", 1200), ("light", 400), ("dark", 400)):
        browser.look(width, scheme=scheme)
        for name, page in pages.items():
            title = f"{name}, {scheme}, {width}"
            js(f"location.hash = '#/{page}'")
            wait(title, "document.querySelector('#main h1') && document.querySelectorAll('#main *').length > 12 && "
                 "!document.querySelector('[aria-busy]')")
            if name == "job":
                see("Result")
            if name == "new":
                js("document.querySelector('form details').open = true")
            js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            ok(f"{title}: nothing sticks out", js("document.documentElement.scrollWidth") <= width)
            faint = js(f"(() => {{ {HELPERS} return faintTexts(4.5); }})()")
            ok(f"{title}: contrast", not faint, faint)
            nameless = [role for role, label in browser.tree() if role in
                        ("button", "link", "textbox", "searchbox", "combobox", "progressbar", "meter", "region", "table", "image", "dialog") and not label.strip()]
            ok(f"{title}: each control has a name", not nameless, nameless)
            if PICTURES:
                browser.screenshot(f"{PICTURES}/{name}-{scheme}-{width}.png")
    browser.look(1200)


def last_model():
    go("models", "Models")
    press_button("Delete")
    press_button("Delete", "document.querySelector('dialog[open]')")
    see("No models yet")


def nothing_forbidden():
    ok("no errors in the console", not browser.console, browser.console)
    ok("no violations", not browser.violations, browser.violations)
    js("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:1/x.png'}))")
    for _ in range(100):
        if browser.violations:
            break
        time.sleep(0.05)
    ok("a violation would be seen", browser.violations)


try:
    browser.look(1200)
    browser.open(proxy.url)
    first_visit()
    uploads()
    form()
    ended = a_job()
    model = js(f"fetch('/v1/jobs/{ended}').then((r) => r.json()).then((j) => j.model_id)")
    moves()
    configurations()
    five_thousand(ended)
    keyboard()
    looks(ended, model)
    browser.open(f"{proxy.url}/#/models")
    last_model()
    signing_in(ended)
    nothing_forbidden()
except Failure:
    failed += 1
    traceback.print_exc()
    print(browser.console, browser.violations)
finally:
    browser.close()
print(f"{passed} passed, {failed} failed in the browser")
sys.exit(1 if failed else 0)
