"""Traces of jobs: a span around each handler, below the span of ojs-init, or else in the trace in which its job was
enqueued.

    from ojs_worker.opentelemetry import instrument

    instrument(worker)

Needs ``opentelemetry-api``. What exports the spans is the program's own choice.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, Union

from opentelemetry import propagate, trace

from . import AsyncWorker, Cancelled, Release, Worker


def instrument(worker: Union[Worker, AsyncWorker], tracer: Any = None) -> None:
    """Add a middleware to the worker that traces jobs, and let its client pass the current trace on
    in ``meta``.

    Call it before other middleware is added, so that its spans are around that.
    """
    used: Any = tracer or trace.get_tracer("ojs_worker")
    worker.client.before_enqueue.append(_inject)
    if isinstance(worker, AsyncWorker):

        @worker.middleware
        async def traced_async(job: Any, call_next: Any) -> Any:
            with _span(used, job):
                return await call_next()

    else:

        @worker.middleware
        def traced(job: Any, call_next: Any) -> Any:
            with _span(used, job):
                return call_next()


@contextlib.contextmanager
def _span(tracer: Any, job: Any) -> Iterator[None]:
    attributes = {
        "messaging.system": "ojs",
        "messaging.operation.type": "process",
        "messaging.destination.name": job.queue,
        "messaging.message.id": job.id,
        "ojs.job.type": job.type,
        **({} if job.attempt is None else {"ojs.job.attempt": job.attempt}),
    }
    span: Any = tracer.start_span(
        f"process {job.type}",
        context=propagate.extract(_carrier_of(job)),
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
    )
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except (Cancelled, Release):
            raise  # The job goes back: that is no error.
        except Exception as error:
            span.record_exception(error)
            span.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))
            raise


def _carrier_of(job: Any) -> Dict[str, str]:
    carrier = {name: value for name, value in job.meta.items() if isinstance(value, str)}
    if job.traceparent is not None and job.traceparent != carrier.get("traceparent"):
        carrier["traceparent"] = job.traceparent
        carrier.pop("tracestate", None)  # It belongs to the producer's trace.
    return carrier


def _inject(body: Dict[str, Any]) -> None:
    carrier: Dict[str, str] = {}
    propagate.inject(carrier)
    if carrier:
        body["meta"] = {**carrier, **body.get("meta", {})}
