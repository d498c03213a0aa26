# SPDX-License-Identifier: Apache-2.0
"""What systemd does for a service of Type=notify with a socket and a watchdog, for the test of it.

usage: systemd_parent.py PROGRAM DATA_DIR LOG

Starts the server twice on one socket, with a restart between while a client is connecting; prints what must hold, a line each.
"""
import http.client
import os
import signal
import socket
import sys
import threading
import time

program, data_dir, log = sys.argv[1:]

listening = socket.create_server(("127.0.0.1", 0))
port = listening.getsockname()[1]
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind("\0warptune-test-%d" % os.getpid())
notify.settimeout(30)


def start():
    pid = os.fork()
    if pid:
        return pid
    os.dup2(listening.fileno(), 3)
    os.set_inheritable(3, True)
    environment = dict(os.environ, LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES="http",
                       NOTIFY_SOCKET="@warptune-test-%d" % os.getppid(), WATCHDOG_USEC="1000000",
                       WATCHDOG_PID=str(os.getpid()))
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.execve(program, [program, "serve", "--data-dir", data_dir, "--listen", "127.0.0.1:1", "--devices", "cpu"],
              environment)


def heard(wanted):
    """The next message with that line, others skipped; how many WATCHDOG=1 came before."""
    alive = 0
    while True:
        lines = notify.recv(4096).decode().split("\n")
        if wanted in lines:
            return lines, alive
        alive += "WATCHDOG=1" in lines


def ask(path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    return connection.getresponse().status


pid = start()
lines, _ = heard("READY=1")
print("status", [line for line in lines if line.startswith("STATUS=")][0].rsplit(":", 1)[1] == str(port))
print("answers", ask("/readyz"))
os.kill(pid, signal.SIGHUP)
heard("RELOADING=1")
heard("READY=1")
print("reloads")
began = time.monotonic()
for _ in range(4):
    heard("WATCHDOG=1")
print("watchdog", time.monotonic() - began < 4)

os.kill(pid, signal.SIGTERM)
heard("STOPPING=1")
answers = []
client = threading.Thread(target=lambda: answers.append(ask("/healthz")))
client.start()
_, status = os.waitpid(pid, 0)
print("ended", status)
time.sleep(0.3)
print("waits", client.is_alive())
pid = start()
heard("READY=1")
client.join(30)
print("answered", answers)
os.kill(pid, signal.SIGTERM)
print("ended", os.waitpid(pid, 0)[1])
