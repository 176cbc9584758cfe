"""The middleware, with the real SDK."""

import unittest
from typing import Any
from unittest import mock

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ojs_worker import AsyncWorker, Client, Job, Release, Worker
from ojs_worker.opentelemetry import instrument


class Traces(unittest.TestCase):
    def setUp(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("test")

    def test_a_job_is_in_the_trace_that_enqueued_it(self) -> None:
        worker = Worker()
        instrument(worker, self.tracer)

        @worker.job("t")
        def t() -> str:
            return format(trace.get_current_span().get_span_context().trace_id, "032x")

        with mock.patch.object(Client, "_post", return_value="id") as post, self.tracer.start_as_current_span("request"):
            t.enqueue()
        traceparent = __import__("json").loads(post.call_args.args[1])["meta"]["traceparent"]
        outcome = worker.perform("t", meta={"traceparent": traceparent})
        request, job = self.exporter.get_finished_spans()
        self.assertEqual(outcome.result, format(request.context.trace_id, "032x"))
        self.assertEqual(job.parent.span_id, request.context.span_id)
        self.assertEqual((job.name, job.kind, job.status.is_ok), ("process t", trace.SpanKind.CONSUMER, True))
        self.assertEqual(job.attributes["messaging.message.id"], "perform-1")

    def test_a_job_is_below_the_span_of_ojs_init_if_there_is_one(self) -> None:
        worker = Worker()

        @worker.middleware
        def frame(job: Job, call_next: Any) -> Any:
            job.traceparent = f"00-{'a' * 32}-{'b' * 16}-01"  # As a frame brings it.
            return call_next()

        instrument(worker, self.tracer)
        worker.job("t")(lambda: None)
        worker.perform("t", meta={"traceparent": f"00-{'c' * 32}-{'d' * 16}-01", "tracestate": "producer=1"})
        (span,) = self.exporter.get_finished_spans()
        self.assertEqual((span.parent.trace_id, span.parent.span_id), (int("a" * 32, 16), int("b" * 16, 16)))
        self.assertEqual(len(span.context.trace_state), 0)

    def test_errors_but_not_releases_are_errors(self) -> None:
        worker = AsyncWorker()
        instrument(worker, self.tracer)

        @worker.job("t")
        async def t(fails: bool) -> None:
            raise ValueError("x") if fails else Release("later")

        worker.perform("t", [True])
        worker.perform("t", [False])
        worker.perform("t", [])
        failed, released, refused = self.exporter.get_finished_spans()
        self.assertEqual((failed.status.description, failed.events[0].name), ("ValueError", "exception"))
        self.assertEqual((released.status.is_ok, released.events), (True, ()))
        self.assertEqual(refused.status.description, "InvalidArgs")
