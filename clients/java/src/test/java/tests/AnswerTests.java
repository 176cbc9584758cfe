package tests;

import dev.ojs.worker.Worker;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** Every job gets its answer, over a socket, whatever goes wrong. */
final class AnswerTests {
    private AnswerTests() {}

    /** A log that is broken. */
    private static final class Broken extends Handler {
        @Override
        public void publish(LogRecord entry) {
            throw new OutOfMemoryError("the log");
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }

    private static final class Unspeakable extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new OutOfMemoryError("the message");
        }
    }

    /** While the body runs, each line of the library's log is an error. */
    private static void withBrokenLog(Check.Body body) throws Throwable {
        Logger log = Logger.getLogger("dev.ojs.worker");
        Handler broken = new Broken();
        Level before = log.getLevel();
        log.setUseParentHandlers(false);
        log.addHandler(broken);
        log.setLevel(Level.ALL);
        try {
            body.run();
        } finally {
            log.setLevel(before);
            log.removeHandler(broken);
            log.setUseParentHandlers(true);
        }
    }

    private static Map<?, ?> error(FakeInit init) throws Exception {
        Map<String, Object> frame = init.next();
        Check.equal("fail", frame.get("type"));
        return (Map<?, ?>) frame.get("error");
    }

    static void run() {
        broken();
        halfPairs();
        again();
        untyped();
    }

    private static void untyped() {
        Check.that("a job without a string as type is a job without a handler", () -> {
            try (FakeInit init = new FakeInit()) {
                init.start(new Worker(init.options()).job("*", job -> "done"));
                for (String type : new String[] {"", ",\"type\":7"}) {
                    init.send("{\"type\":\"job\",\"job\":{\"id\":\"1\"" + type + "}}");
                    Map<?, ?> error = error(init);
                    Check.equal("handler_not_found", error.get("code"));
                    Check.equal(true, error.get("retryable"));
                }
            }
        });
    }

    private static void again() {
        Check.that("a job that comes again while its handler runs gets one answer, also while the worker ends", () -> {
            try (FakeInit init = new FakeInit()) {
                CountDownLatch mayEnd = new CountDownLatch(1);
                Worker worker = new Worker(init.options()).job("a", job -> {
                    mayEnd.await();
                    return "done";
                });
                init.start(worker);
                init.job("1", "a", "[]");
                init.send("{\"type\":\"ping\",\"id\":1}");
                Check.equal("pong", init.next().get("type"));
                init.job("1", "a", "[".repeat(300) + "]".repeat(300)); // deeper than can be read
                worker.stop();
                Check.equal("ready", init.next().get("type"));
                init.job("1", "a", "[]");
                init.send("{\"type\":\"ping\",\"id\":2}");
                Check.equal("pong", init.next().get("type"));
                mayEnd.countDown();
                Check.json("{\"type\":\"ack\",\"job_id\":\"1\",\"result\":\"done\"}", init.next());
            }
        });
    }

    private static void halfPairs() {
        Check.that("half a surrogate pair in what an earlier attempt saved goes out as it came", () -> {
            try (FakeInit init = new FakeInit()) {
                init.start(new Worker(init.options()).job("a", job -> {
                    job.step("b", () -> 1);
                    throw new IllegalStateException("at the end");
                }));
                String saved = "{\"ojs_resume\":1,\"steps\":[[\"a\",\"\\udc00\"]],\"cursors\":{},\"state\":\"x\\ud800\"}";
                init.send("{\"type\":\"job\",\"job\":{\"id\":\"1\",\"type\":\"a\"},\"checkpoint\":" + saved + "}");
                Check.equal("StepsChanged", error(init).get("type"));
                saved = saved.replace("[\"a\",\"\\udc00\"]", "");
                init.send("{\"type\":\"job\",\"job\":{\"id\":\"1\",\"type\":\"a\"},\"checkpoint\":" + saved + "}");
                Map<?, ?> state = (Map<?, ?>) init.next().get("state");
                Check.equal("x\ud800", state.get("state"));
                Check.equal("at the end", error(init).get("message"));
            }
        });
        Check.that("half a surrogate pair in a job's id does not cost it its answer", () -> {
            try (FakeInit init = new FakeInit()) {
                init.start(new Worker(init.options()).job("a", job -> "done"));
                init.job("1\\ud800", "a", "[]");
                Map<String, Object> answer = init.next();
                Check.equal("1\ud800", answer.get("job_id"));
                Check.equal("ack", answer.get("type"));
            }
        });
    }

    private static void broken() {
        Check.that("a log that fails costs no job its answer, and the worker lives on", () -> withBrokenLog(() -> {
            try (FakeInit init = new FakeInit()) {
                init.start(new Worker(init.options()).job("a", job -> {
                    throw new IllegalStateException("no luck");
                }));
                for (String id : new String[] {"1", "2"}) {
                    init.job(id, "a", "[]");
                    Check.equal("no luck", error(init).get("message"));
                }
                init.job("3", "b", "[]");
                Check.equal("handler_not_found", error(init).get("code"));
                init.send("{\"type\":\"ping\",\"id\":1}");
                Check.equal("pong", init.next().get("type"));
            }
        }));
        Check.that("a job whose answer cannot be made fails, also when that cannot be logged", () -> withBrokenLog(() -> {
            try (FakeInit init = new FakeInit()) {
                init.start(new Worker(init.options()).job("a", job -> {
                    throw new Unspeakable();
                }));
                for (String id : new String[] {"1", "1"}) {
                    init.job(id, "a", "[]");
                    Map<?, ?> error = error(init);
                    Check.equal("the answer cannot be made", error.get("message"));
                    Check.equal(true, error.get("retryable"));
                }
            }
        }));
    }
}
