#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A receiver of webhooks: verifies each delivery as the Standard Webhooks specification says, notes it, and answers.

usage: webhook_receiver.py FOLDER [PORT]
FOLDER/secret holds the secret (may change between deliveries), FOLDER/plan the statuses to answer with, one a line,
taken from the top; 200 once it is empty. Each delivery adds a line "ID VALID TYPE STATUS BODY" to FOLDER/received. The
port is written to FOLDER/port.
"""
import base64
import hashlib
import hmac
import http.server
import json
import os
import sys
import time

folder = sys.argv[1]


def read(name):
    try:
        with open(os.path.join(folder, name), encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def next_status():
    lines = read("plan").split()
    with open(os.path.join(folder, "plan"), "w", encoding="ascii") as file:
        file.write("\n".join(lines[1:]))
    return int(lines[0]) if lines else 200


def is_valid(headers, body):
    key = base64.b64decode(read("secret").strip().removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    fresh = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return fresh and any(hmac.compare_digest(wanted, given) for given in headers["webhook-signature"].split())


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        valid = is_valid(self.headers, body) and self.headers["Content-Type"] == "application/json"
        status = next_status()
        line = f"{self.headers['webhook-id']} {valid} {json.loads(body)['type']} {status} {body.decode()}\n"
        with open(os.path.join(folder, "received"), "a", encoding="utf-8") as file:
            file.write(line)
        self.send_response(status)
        if status // 100 == 3:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Receiver)
with open(os.path.join(folder, "port.new"), "w", encoding="ascii") as file:
    file.write(str(server.server_port))
os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
server.serve_forever()
