package tests;

import dev.ojs.worker.Delivery;
import dev.ojs.worker.JobLog;
import dev.ojs.worker.Json;
import dev.ojs.worker.Options;
import dev.ojs.worker.Worker;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Log lines that say which job they are about. */
final class LogTests {
    private static final Logger LIBRARY = Logger.getLogger("some.library");
    private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";

    private LogTests() {}

    /** What is logged from this level on while the body runs, a line each. */
    static String logged(Level level, Check.Body body) throws Throwable {
        PrintStream before = System.err;
        Logger root = Logger.getLogger("");
        Handler[] handlers = root.getHandlers();
        Level rootLevel = root.getLevel();
        Logger own = Logger.getLogger("dev.ojs.worker");
        Level ownLevel = own.getLevel();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        System.setErr(new PrintStream(bytes, true, StandardCharsets.UTF_8));
        try {
            own.setLevel(null);
            JobLog.install(level);
            body.run();
        } finally {
            System.setErr(before);
            own.setLevel(ownLevel);
            root.removeHandler(root.getHandlers()[0]);
            for (Handler handler : handlers) {
                root.addHandler(handler);
            }
            root.setLevel(rootLevel);
        }
        return bytes.toString(StandardCharsets.UTF_8);
    }

    static Map<?, ?> only(String lines) {
        Check.equal(1L, lines.lines().count());
        return (Map<?, ?>) Json.parse(lines.strip());
    }

    static void run() {
        lines();
        levels();
    }

    private static void lines() {
        Check.that("the shutdown that a test plays is not in the log at info", () -> {
            Worker worker = new Worker().job("a", job -> null);
            Delivery delivery = new Delivery().stopping(Duration.ofSeconds(5));
            Check.equal("", logged(Level.INFO, () -> worker.perform(delivery, "a")));
        });
        Check.that("a line that is logged in a handler says which job it is about, and its trace", () -> {
            Worker worker = new Worker().job("a", job -> {
                LIBRARY.log(Level.WARNING, "two\nlines {0}", 5);
                return null;
            });
            Delivery delivery = new Delivery().attempt(2).queue("q")
                    .meta(Map.of("traceparent", "00-" + TRACE + "-00f067aa0ba902b7-01"));
            Map<?, ?> line = only(logged(Level.INFO, () -> worker.perform(delivery, "a")));
            Check.equal("two\nlines 5", line.get("message"));
            Check.equal("WARN", line.get("severity"));
            Check.equal(13L, line.get("severity_number"));
            Check.equal("handler", line.get("component"));
            Check.json("{\"job_id\":\"test-job\",\"job_type\":\"a\",\"queue\":\"q\",\"attempt\":2}", line.get("ojs"));
            Check.json("{\"trace_id\":\"" + TRACE + "\",\"span_id\":\"00f067aa0ba902b7\"}", line.get("trace"));
            Check.holds(line.get("timestamp").toString().matches("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z"), "a time");
        });
        Check.that("without a valid traceparent meta.trace_id is the trace, and without both there is none", () -> {
            Worker worker = new Worker().job("a", job -> {
                LIBRARY.info("x");
                return null;
            });
            Delivery bad = new Delivery().meta(Map.of("traceparent", "00-nonsense", "trace_id", "t1"));
            Check.json("{\"trace_id\":\"t1\"}", only(logged(Level.INFO, () -> worker.perform(bad, "a"))).get("trace"));
            Check.equal(null, only(logged(Level.INFO, () -> worker.perform("a"))).get("trace"));
        });
        Check.that("outside of a handler a line is about no job", () -> {
            Map<?, ?> line = only(logged(Level.INFO, () -> LIBRARY.info("x")));
            Check.equal("worker", line.get("component"));
            Check.equal(null, line.get("ojs"));
        });
        Check.that("a failed job is logged with its stack, and about that job", () -> {
            Worker worker = new Worker().job("a", job -> {
                throw new IllegalStateException("broken");
            });
            Map<?, ?> line = only(logged(Level.INFO, () -> worker.perform("a")));
            Check.equal("test-job", ((Map<?, ?>) line.get("ojs")).get("job_id"));
            Check.contains("LogTests", ((Map<?, ?>) line.get("error")).get("stack").toString());
        });
        Check.that("a task that is wrapped takes its job to another thread", () -> {
            Worker worker = new Worker().job("a", job -> {
                Runnable task = JobLog.wrap(() -> LIBRARY.info("beside"));
                Thread thread = new Thread(task);
                thread.start();
                thread.join();
                return null;
            });
            Map<?, ?> line = only(logged(Level.INFO, () -> worker.perform("a")));
            Check.equal("a", ((Map<?, ?>) line.get("ojs")).get("job_type"));
        });
        Check.that("half a surrogate pair and a message that fails do not cost the line", () -> {
            Map<?, ?> line = only(logged(Level.INFO, () -> LIBRARY.log(Level.SEVERE, "\ud800", new RuntimeException() {
                private static final long serialVersionUID = 1L;

                @Override
                public String getMessage() {
                    throw new IllegalStateException("no message");
                }
            })));
            Check.equal("?", line.get("message"));
            Check.equal("ERROR", line.get("severity"));
        });
    }

    private static void levels() {
        Worker worker = new Worker(new Options()).job("a", job -> {
            LIBRARY.fine("fine");
            LIBRARY.info("info");
            return null;
        });
        Delivery debug = new Delivery().meta(Map.of("log_level", "debug"));
        Check.that("meta.log_level makes one job say more", () -> {
            Check.equal(2L, logged(Level.INFO, () -> worker.perform(debug, "a")).lines().count());
            Check.equal(1L, logged(Level.INFO, () -> worker.perform("a")).lines().count());
        });
        Check.that("meta.log_level makes one job say less", () -> Check.equal(0L, logged(Level.INFO,
                () -> worker.perform(new Delivery().meta(Map.of("log_level", "error")), "a")).lines().count()));
        Check.that("the level of one job is not that of another one at the same time", () -> {
            CountDownLatch isRunning = new CountDownLatch(1);
            CountDownLatch mayEnd = new CountDownLatch(1);
            Worker other = new Worker().job("long", job -> {
                isRunning.countDown();
                mayEnd.await();
                return null;
            });
            Thread thread = new Thread(() -> other.perform(debug, "long"));
            Check.equal(1L, logged(Level.INFO, () -> {
                thread.start();
                isRunning.await();
                worker.perform("a");
                mayEnd.countDown();
                thread.join();
            }).lines().count());
        });
        Check.that("a logger with a level of its own keeps it", () -> {
            LIBRARY.setLevel(Level.FINE);
            try {
                Check.equal(2L, logged(Level.INFO, () -> worker.perform("a")).lines().count());
            } finally {
                LIBRARY.setLevel(null);
            }
        });
    }
}
