"""Lines of the log that say whose job they are about."""

import io
import json
import logging
import threading
import unittest
from typing import Any, Dict, List

from ojs_worker import Discard, Job, Retry, Worker, current_job, install_logging

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Log(unittest.TestCase):
    def setUp(self) -> None:
        root = logging.getLogger()
        before, level = list(root.handlers), root.level
        self.stream = io.StringIO()
        handler = install_logging("info", stream=self.stream)
        # Other tests keep the client's own lines off their output.
        own = logging.getLogger("ojs_worker")
        self.addCleanup(setattr, own, "propagate", own.propagate)
        own.propagate = True

        def restore() -> None:
            root.removeHandler(handler)
            root.handlers[:] = before
            install_level(level)

        def install_level(number: int) -> None:
            root.setLevel(number)

        self.addCleanup(restore)

    def lines(self) -> List[Dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def about(self, message: str) -> List[Dict[str, Any]]:
        return [line for line in self.lines() if line["message"] == message]

    def test_each_line_of_a_handler_names_its_job_and_trace(self) -> None:
        worker = Worker()
        worker.job("t")(lambda job: logging.getLogger("a.library").warning("hello %s", "there", extra={"tries": 3}))
        worker.perform("t", id="j7", attempt=2, meta={"traceparent": TRACE})
        (line,) = self.about("hello there")
        self.assertEqual(line["ojs"], {"job_id": "j7", "job_type": "t", "queue": "default", "attempt": 2})
        self.assertEqual(line["trace"]["trace_id"], "0af7651916cd43dd8448eb211c80319c")
        self.assertEqual((line["severity"], line["severity_number"], line["component"]), ("WARN", 13, "handler"))
        self.assertEqual(line["attributes"], {"logger": "a.library", "tries": 3})

    def test_a_failed_job_has_its_stack_in_the_line(self) -> None:
        worker = Worker()

        @worker.job("t")
        def boom(job: Job) -> None:
            raise KeyError("kaputt")

        worker.perform("t", id="j8")
        (line,) = [line for line in self.lines() if "error" in line]
        self.assertEqual((line["ojs"]["job_id"], line["error"]["type"]), ("j8", "KeyError"))
        self.assertIn("in boom", line["error"]["stack"])

    def test_each_job_that_fails_is_in_one_error_line_with_the_stack_of_what_was_wrong(self) -> None:
        worker = Worker()

        @worker.job("t")
        def fail(job: Job) -> object:
            if job.args[0] == "not json":
                return object()
            try:
                {}["the real cause"]
            except KeyError as error:
                raise (Discard if job.args[0] == "discard" else Retry)("in own words") from error

        for what, told in (("retry", "the real cause"), ("discard", "the real cause"), ("not json", "not JSON")):
            self.stream.seek(0)
            self.stream.truncate()
            worker.perform("t", [what])
            (line,) = [line for line in self.lines() if line["severity"] == "ERROR"]
            self.assertIn(told, line["error"]["stack"])
            self.assertIn("Traceback", line["error"]["stack"])

    def test_outside_of_handlers_there_is_no_job(self) -> None:
        logging.info("alone")
        (line,) = self.about("alone")
        self.assertNotIn("ojs", line)
        self.assertIsNone(current_job())

    def test_a_job_has_a_level_of_its_own(self) -> None:
        worker = Worker()

        @worker.job("t")
        def talk(job: Job) -> None:
            for level in (logging.DEBUG, logging.INFO, logging.ERROR):
                logging.log(level, "%s of %s", logging.getLevelName(level), job.id)

        worker.perform("t", id="usual")
        worker.perform("t", id="much", meta={"log_level": "debug"})
        worker.perform("t", id="little", meta={"log_level": "error"})
        said = [line["message"] for line in self.lines() if " of " in line["message"]]
        expected = ["INFO of usual", "ERROR of usual", "DEBUG of much", "INFO of much", "ERROR of much", "ERROR of little"]
        self.assertEqual(said, expected)

    def test_two_jobs_at_once_do_not_mix_their_lines(self) -> None:
        worker = Worker()
        meet = threading.Barrier(2)

        @worker.job("t")
        def talk(job: Job) -> None:
            meet.wait(10)
            for _ in range(50):
                logging.info(job.id)

        performs = [threading.Thread(target=worker.perform, args=("t",), kwargs={"id": name}) for name in ("a", "b")]
        for thread in performs:
            thread.start()
        for thread in performs:
            thread.join()
        talked = [line for line in self.lines() if line["message"] in ("a", "b")]
        self.assertEqual(len(talked), 100)
        self.assertEqual([line for line in talked if line["ojs"]["job_id"] != line["message"]], [])


if __name__ == "__main__":
    unittest.main()
