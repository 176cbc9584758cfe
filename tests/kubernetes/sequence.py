"""What the manifests ask of ojs-init, asked of the real binary: its variables, its times, its probes and its preStop
hook, in the order in which a kubelet does it.
"""

import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from kustomize import Wrong
from promises import HEALTH_PORT, PROGRAM, goals, seconds

# Longest wait for what has to come, in seconds.
PATIENCE = 10

# Between two looks at what sends no news, in seconds.
LOOK_AGAIN = 0.05

# A backend that is never there: the connection is refused.
NOWHERE = "http://127.0.0.1:1"


CLOCK_RUNS = r"a preStop hook ran: the orchestrator's clock runs, SIGKILL is expected in (\S+) s"


class Instance:
    """An ojs-init that runs, with the environment of a variant, and what it says."""

    def __init__(self, binary, environment):
        self.lines = []
        self.news = threading.Condition()
        # The worker does nothing: what is looked at is not its business.
        command = [binary, "--", "sleep", "60"]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stderr:
            with self.news:
                self.lines.append(json.loads(line)["message"])
                self.news.notify_all()

    def says(self, pattern, is_hopeless=lambda: False):
        """Waits for a message that begins so, and returns the match. None: it became hopeless."""
        def found():
            return next((match for match in (re.match(pattern, line) for line in self.lines) if match), None)

        with self.news:
            give_up = time.monotonic() + PATIENCE
            while found() is None and not is_hopeless():
                if not self.news.wait(min(LOOK_AGAIN, give_up - time.monotonic())) and time.monotonic() >= give_up:
                    raise Wrong(f"ojs-init did not say {pattern!r}: {self.lines}")
            return found()


def get(address, path):
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def environment_of(variant, folder):
    """The variant's environment, with the places and addresses of this machine."""
    places = {"OJS_URL": NOWHERE, "OJS_HEALTH_LISTEN": "127.0.0.1:0", "OJS_RUNTIME_DIR": f"{folder}/run"}
    places |= {"OJS_AUTH_TOKEN_FILE": f"{folder}/token", "OJS_TERMINATION_LOG": f"{folder}/termination-log"}
    for name, content in (("token", "secret"), ("termination-log", "")):
        Path(folder, name).write_text(content, encoding="utf-8")
    from_outside = {"PATH": os.environ["PATH"], "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    return from_outside | variant.environment | places | {"OJS_LOG_FORMAT": "json"}


def run(binary, arguments, environment):
    done = subprocess.run([binary, *arguments], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout + done.stderr


def setting_errors(binary, variant):
    """The variables exist, and the configuration holds without a warning."""
    helped = run(binary, ["run", "--help"], {})[1]
    ours = [name for name in variant.environment if name.startswith("OJS_")]
    unknown = [name for name in ours if not re.search(rf"\b{name}\b", helped)]
    yield from (f"{variant.name}: {name} is no variable of ojs-init" for name in unknown)
    with tempfile.TemporaryDirectory() as folder:
        environment = environment_of(variant, folder)
        said = run(binary, ["config", "check"], environment)
        if said != (0, "configuration is valid\n"):
            yield f"{variant.name}: config check: {said}"
            return
        for default in ("OJS_HEALTH_LISTEN", "OJS_TERMINATION_LOG"):
            del environment[default]
        lines = run(binary, ["config", "show"], environment)[1].splitlines()
        shown = dict(line.split(maxsplit=1) for line in lines if line)
        wanted = {"health.listen": f"[::]:{HEALTH_PORT} ", "paths.termination_log": "/dev/termination-log "}
        for key, value in wanted.items():
            if not shown[key].startswith(value):
                yield f"{key}: ojs-init has {shown[key]}, not {value}"


def sequence_errors(binary, variant):
    """Start, probes, hook, SIGTERM, end."""
    with tempfile.TemporaryDirectory() as folder:
        environment = environment_of(variant, folder)
        instance = Instance(binary, environment)
        try:
            yield from (f"{variant.name}: {error}" for error in play(instance, variant, environment, folder))
        finally:
            instance.process.kill()
            instance.process.wait()


def play(instance, variant, environment, folder):
    address = instance.says(r"listening for probes on (\S+)")[1]
    grace = seconds(variant.environment["OJS_SHUTDOWN_GRACE_PERIOD"])
    if not re.fullmatch(f"after a stop signal jobs get {grace} s", instance.says("after a stop signal.*")[0]):
        yield f"the grace period of {grace} s is not what jobs get"
    instance.says("Worker started")
    yield from probed(variant, "livenessProbe", True, instance, address, environment)
    yield from probed(variant, "readinessProbe", False, instance, address, environment)
    page = get(address, "/metrics")[1]
    for scaler in variant.all("HorizontalPodAutoscaler") + variant.all("ScaledObject"):
        ours = [name for name, _ in goals(scaler) if name.startswith(("ojs_init_", "ojs_worker_"))]
        missing = [name for name in ours if f"\n{name} " not in page]
        yield from (f"/metrics has no {name}" for name in missing)
    yield from ended(instance, variant, environment)
    text = Path(folder, "termination-log").read_text(encoding="utf-8")
    if not text.startswith("SIGTERM: drained; exit status 0"):
        yield f"the termination log says {text!r}"


def probed(variant, kind, is_well, instance, address, environment):
    """The worker has no backend and has not said ready: it lives, and is not ready."""
    probe = variant.worker[kind]
    if "httpGet" in probe:
        status, body = get(address, probe["httpGet"]["path"])
        if status != (200 if is_well else 503) or '"status"' not in body:
            yield f"{kind}: {status} {body}"
    else:
        status, said = run(*split(probe["exec"]["command"], instance), environment)
        if status != (0 if is_well else 1):
            yield f"{kind}: exit status {status}: {said}"


def split(command, instance):
    """The binary under test in place of the one in the container, and its arguments."""
    if command[0] != PROGRAM:
        raise Wrong(f"{command}: is not {PROGRAM}")
    return instance.process.args[0], command[1:]


def ended(instance, variant, environment):
    """The kubelet runs the hook, sends SIGTERM when it has returned, and here a little before, so that nobody waits."""
    binary, arguments = split(variant.worker["lifecycle"]["preStop"]["exec"]["command"], instance)
    began = time.monotonic()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    hook = subprocess.Popen([binary, *arguments], env=environment, **pipes)
    try:
        # A hook that has succeeded was heard of, and the line may still be on its way.
        expected = instance.says(CLOCK_RUNS, lambda: hook.poll() not in (None, 0))
        limit = variant.pod["terminationGracePeriodSeconds"]
        if expected and round(float(expected[1])) != limit:
            yield f"ojs-init expects SIGKILL in {expected[1]} s, the kubelet sends it after {limit}"
        instance.process.send_signal(signal.SIGTERM)
        said = hook.communicate(timeout=PATIENCE)[0]
        status = instance.process.wait(PATIENCE)
    finally:
        hook.kill()
        hook.wait()
    if not expected or hook.returncode != 0 or status != 0:
        yield f"the hook ended with {hook.returncode} ({said.strip()}), ojs-init with {status}"
    if time.monotonic() - began > PATIENCE / 2:
        yield "an idle worker took its time to end"
