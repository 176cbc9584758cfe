"""A collector of OpenTelemetry that is strict: OTLP over HTTP in JSON, as the protocol's schema has it.

otlp_receiver.py SPANS accept|hang|refuse|busy: listens on a free port of the loopback, writes the
port to SPANS.port, and each span that it accepts as a line of JSON to SPANS. What is not of the
schema is an answer with status 400, and a line {"fault": ...}. Where opentelemetry-proto is
installed, its classes read each request as well.
"""

import base64
import json
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SPANS, MANNER = sys.argv[1:]

TEXT, NUMBER = str, int
HEX = {16: re.compile("[0-9a-f]{32}"), 8: re.compile("[0-9a-f]{16}")}
NANOS = re.compile("[1-9][0-9]*")

VALUE = {"stringValue": TEXT, "intValue": re.compile("[0-9]+")}
ATTRIBUTES = [{"key": TEXT, "value": VALUE}]
RESOURCE = {"attributes": ATTRIBUTES}
EVENT = {"timeUnixNano": NANOS, "name": TEXT, "attributes": ATTRIBUTES}
LINK = {"traceId": HEX[16], "spanId": HEX[8], "flags": NUMBER}
SPAN = {
    "traceId": HEX[16],
    "spanId": HEX[8],
    "parentSpanId": HEX[8],
    "flags": NUMBER,
    "name": TEXT,
    "kind": NUMBER,
    "startTimeUnixNano": NANOS,
    "endTimeUnixNano": NANOS,
    "attributes": ATTRIBUTES,
    "events": [EVENT],
    "links": [LINK],
    "status": {"code": NUMBER, "message": TEXT},
}
SCOPE = {"scope": {"name": TEXT, "version": TEXT}, "spans": [SPAN]}
REQUEST = {"resourceSpans": [{"resource": RESOURCE, "scopeSpans": [SCOPE]}]}


def check(value, schema, at="request"):
    """Fails with the place of what is not of the schema."""
    if isinstance(schema, dict):
        assert isinstance(value, dict), at
        for name, inner in value.items():
            assert name in schema, f"{at}.{name}"
            check(inner, schema[name], f"{at}.{name}")
    elif isinstance(schema, list):
        assert isinstance(value, list), at
        for index, inner in enumerate(value):
            check(inner, schema[0], f"{at}[{index}]")
    elif isinstance(schema, re.Pattern):
        assert isinstance(value, str) and schema.fullmatch(value), f"{at} = {value!r}"
    else:
        assert type(value) is schema, f"{at} = {value!r}"


def check_with_protobuf(body):
    """The same with the classes of the protocol, whose JSON has ids in base 64."""
    try:
        from google.protobuf import json_format
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        return
    def of_base_64(match):
        return match[1] + base64.b64encode(bytes.fromhex(match[2])).decode() + '"'
    text = re.sub(r'("(?:traceId|spanId|parentSpanId)":")([0-9a-f]+)"', of_base_64, body.decode())
    json_format.Parse(text, ExportTraceServiceRequest(), ignore_unknown_fields=False)


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lock = threading.Lock()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if MANNER == "hang":
            threading.Event().wait()
        if MANNER == "busy":
            return self.answer(503, {}, {"Retry-After": "1"})
        if MANNER == "refuse":
            return self.answer(400, {"message": "no"})
        try:
            assert self.path == "/v1/traces", self.path
            assert self.headers["Content-Type"] == "application/json"
            request = json.loads(body)
            check(request, REQUEST)
            check_with_protobuf(body)
        except Exception as fault:
            self.write([{"fault": repr(fault)}])
            return self.answer(400, {"message": str(fault)})
        for resource in request["resourceSpans"]:
            shared = {"resource": resource["resource"], "key": self.headers["x-api-key"]}
            for scope in resource["scopeSpans"]:
                self.write([span | shared for span in scope["spans"]])
        self.answer(200, {})

    def write(self, lines):
        with self.lock, open(SPANS, "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def answer(self, status, body, headers={}):
        body = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers | {"Content-Type": "application/json"}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
server.daemon_threads = True
# A client that leaves is no fault.
server.handle_error = lambda *_: None
open(SPANS, "w").close()
with open(f"{SPANS}.new", "w") as file:
    file.write(str(server.server_port))
os.rename(f"{SPANS}.new", f"{SPANS}.port")
server.serve_forever()
