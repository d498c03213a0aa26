# SPDX-License-Identifier: Apache-2.0
"""A client with a connection that stays open while the server drains.

usage: drain_client.py HOST:PORT PID JOB

Asks once on each of five connections, sends SIGTERM to the server, asks again until it says that it drains; prints what came: one `name value` a line.
"""
import http.client
import json
import os
import signal
import socket
import sys
import time

address, pid, job = sys.argv[1], int(sys.argv[2]), sys.argv[3]
host, port = address.split(":")


def ask(connection, method, path, body=None):
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    return answer, json.loads(text) if text.startswith("{") else text


def opened():
    connection = http.client.HTTPConnection(address, timeout=20)
    answer, _ = ask(connection, "GET", "/readyz")
    assert answer.status == 200, answer.status
    return connection


connections = [opened() for _ in range(5)]
os.kill(pid, signal.SIGTERM)
answer, body = ask(connections[0], "GET", "/readyz")
while answer.status == 200:
    time.sleep(0.01)
    if answer.headers["Connection"] == "close":  # it began to drain between the look and the answer
        connections[0] = connections[4]
    answer, body = ask(connections[0], "GET", "/readyz")
print("ready", answer.status, body["type"].rsplit(":", 1)[1], answer.headers["Connection"])
answer, body = ask(connections[1], "POST", "/v1/jobs", json.dumps({"model_id": job}))
print("submit", answer.status, body["type"].rsplit(":", 1)[1], "retry-after", answer.headers["Retry-After"])
began = time.monotonic()
answer, body = ask(connections[2], "GET", f"/v1/jobs/{job}?wait=60")
print("poll", answer.status, body["state"], "at-once" if time.monotonic() - began < 2 else "late")
answer, body = ask(connections[3], "GET", "/healthz")
print("health", answer.status)
try:
    socket.create_connection((host, int(port)), timeout=5)
    print("connect accepted")
except ConnectionRefusedError:
    print("connect refused")
