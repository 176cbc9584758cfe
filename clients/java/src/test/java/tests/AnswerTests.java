package tests;

import dev.ojs.worker.Worker;
import java.util.Map;
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
