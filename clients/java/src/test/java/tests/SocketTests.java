package tests;

import dev.ojs.worker.OjsException;
import dev.ojs.worker.Options;
import dev.ojs.worker.Worker;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;

/** A worker that runs in this process, over a socket. What needs a process of its own is checked by play.py. */
final class SocketTests {
    private SocketTests() {}

    static void run() {
        starting();
        interrupting();
        mutating();
        filling();
        ending();
    }

    private static void starting() {
        Check.that("without an option a worker takes as many jobs as hello says", () -> {
            try (FakeInit init = new FakeInit()) {
                Map<String, Object> ready = init.start(new Worker(init.options()).job("a", job -> null));
                Check.equal(10L, ready.get("concurrency"));
                Check.equal(List.of("a"), ready.get("types"));
            }
        });
        Check.that("a handler of every type names no types", () -> {
            try (FakeInit init = new FakeInit()) {
                Map<String, Object> ready = init.start(new Worker(init.options().concurrency(3)).job("*", job -> null));
                Check.equal(3L, ready.get("concurrency"));
                Check.holds(!ready.containsKey("types"), "no types");
            }
        });
        Check.that("without OJS_SOCKET the error says how to start it", () -> Check.contains("ojs-init -- java",
                Check.fails(OjsException.NotUnderOjsInit.class, () -> new Worker().job("a", job -> null).run()).getMessage()));
        Check.that("a socket that nobody listens at is an error that names it", () -> Check.contains("/nowhere/s",
                Check.fails(OjsException.NotUnderOjsInit.class, () -> new Worker(new Options().handleSignals(false)
                        .socketPath("/nowhere/s")).job("a", job -> null).run()).getMessage()));
        Check.that("options and registrations that make no sense are errors", () -> {
            Check.fails(IllegalArgumentException.class, () -> new Options().concurrency(0));
            Check.fails(IllegalArgumentException.class, () -> new Options().stopGrace(java.time.Duration.ofDays(2)));
            Check.fails(IllegalArgumentException.class, () -> new Worker().job("", job -> null));
            Check.contains("two handlers", Check.fails(IllegalArgumentException.class,
                    () -> new Worker().job("a", job -> null).job("a", job -> null)).getMessage());
            Check.fails(OjsException.class, () -> new Worker().run());
        });
    }

    private static void interrupting() {
        Check.that("a cancel interrupts the handler, whose InterruptedException is a release", () -> {
            try (FakeInit init = new FakeInit()) {
                CountDownLatch isRunning = new CountDownLatch(1);
                init.start(new Worker(init.options()).job("a", job -> {
                    isRunning.countDown();
                    Thread.sleep(3_600_000);
                    return null;
                }));
                init.job("1", "a", "[]");
                isRunning.await();
                init.send("{\"type\":\"cancel\",\"job_id\":\"1\",\"reason\":\"shutdown\",\"grace_ms\":1000}");
                Check.json("{\"type\":\"release\",\"job_id\":\"1\",\"reason\":\"shutdown\"}", init.next());
            }
        });
        Check.that("with interrupt(false) a cancel leaves the thread alone", () -> {
            try (FakeInit init = new FakeInit()) {
                AtomicReference<Boolean> wasInterrupted = new AtomicReference<>();
                CountDownLatch isRunning = new CountDownLatch(1);
                init.start(new Worker(init.options().interrupt(false)).job("a", job -> {
                    isRunning.countDown();
                    while (!job.isCancelled()) {
                        Thread.sleep(1);
                    }
                    wasInterrupted.set(Thread.currentThread().isInterrupted());
                    return "done";
                }));
                init.job("1", "a", "[]");
                isRunning.await();
                init.send("{\"type\":\"cancel\",\"job_id\":\"1\",\"reason\":\"cancelled\",\"grace_ms\":1000}");
                Check.json("{\"type\":\"ack\",\"job_id\":\"1\",\"result\":\"done\"}", init.next());
                Check.equal(false, wasInterrupted.get());
            }
        });
        Check.that("a checkpoint after the interrupt of a cancel is still sent", () -> {
            try (FakeInit init = new FakeInit()) {
                CountDownLatch isRunning = new CountDownLatch(1);
                init.start(new Worker(init.options()).job("a", job -> {
                    isRunning.countDown();
                    try {
                        Thread.sleep(3_600_000);
                    } catch (InterruptedException cancelled) {
                        Thread.currentThread().interrupt();
                    }
                    job.checkpoint(7);
                    job.throwIfCancelled();
                    return null;
                }));
                init.job("1", "a", "[]");
                isRunning.await();
                init.send("{\"type\":\"cancel\",\"job_id\":\"1\",\"reason\":\"timeout\",\"grace_ms\":1000}");
                Check.json("{\"type\":\"checkpoint\",\"job_id\":\"1\",\"state\":7}", init.next());
                Check.equal("timeout", ((Map<?, ?>) init.next().get("error")).get("code"));
            }
        });
        Check.that("no ThreadLocal of one job is seen by the next", () -> {
            try (FakeInit init = new FakeInit()) {
                ThreadLocal<String> left = new ThreadLocal<>();
                init.start(new Worker(init.options().concurrency(1)).job("a", job -> {
                    String found = left.get();
                    left.set(job.id());
                    return found == null ? "nothing" : found;
                }));
                for (String id : List.of("1", "2", "3")) {
                    init.job(id, "a", "[]");
                    Check.equal("nothing", init.next().get("result"));
                }
            }
        });
    }

    private static void mutating() {
        Check.that("a handler that changes the envelope changes nothing but its own view of it", () -> {
            try (FakeInit init = new FakeInit()) {
                init.start(new Worker(init.options()).job("a", job -> {
                    job.envelope().put("id", "other");
                    job.meta().put("log_level", "debug");
                    return job.id();
                }));
                init.job("1", "a", "[]");
                Check.json("{\"type\":\"ack\",\"job_id\":\"1\",\"result\":\"1\"}", init.next());
                init.job("1", "a", "[]");
                Check.equal("ack", init.next().get("type"));
            }
        });
    }

    private static void filling() {
        Check.that("while ojs-init does not read, only the newest progress waits, and the answer comes last", () -> {
            try (FakeInit init = new FakeInit()) {
                CountDownLatch isSaid = new CountDownLatch(1);
                String words = "x".repeat(1000);
                init.start(new Worker(init.options()).job("a", job -> {
                    for (int i = 0; i <= 50_000; i++) {
                        job.progress(i / 50_000.0, words);
                    }
                    isSaid.countDown();
                    job.awaitStopping(java.time.Duration.ofMinutes(1));
                    return null;
                }));
                init.job("1", "a", "[]");
                isSaid.await();
                int frames = 0;
                for (Object last = 0.0; !Double.valueOf(1).equals(last); frames++) {
                    last = init.next().get("progress");
                }
                Check.holds(frames < 5_000, "far less than all came: " + frames);
                init.send("{\"type\":\"lifecycle\",\"state\":\"terminate\",\"reason\":\"sigterm\",\"remaining_ms\":5000}");
                Check.equal("ack", init.next().get("type"));
            }
        });
        Check.that("a checkpoint that waits goes out in front of the answer", () -> {
            try (FakeInit init = new FakeInit()) {
                init.start(new Worker(init.options()).job("a", job -> {
                    for (int i = 0; i < 20_000; i++) {
                        job.progress(0.5, "x".repeat(1000));
                    }
                    Thread saver = new Thread(() -> job.checkpoint("saved"));
                    saver.setDaemon(true);
                    saver.start();
                    while (saver.getState() != Thread.State.TIMED_WAITING && saver.isAlive()) {
                        Thread.sleep(1);
                    }
                    return "done";
                }).job("b", job -> "b"));
                init.job("1", "a", "[]");
                Map<String, Object> frame = init.next();
                Map<String, Object> before = frame;
                while (!"ack".equals(frame.get("type"))) {
                    before = frame;
                    frame = init.next();
                }
                Check.json("{\"type\":\"checkpoint\",\"job_id\":\"1\",\"state\":\"saved\"}", before);
            }
        });
    }

    private static void ending() {
        Check.that("stop says that no more jobs are taken, finishes what is held, and run returns", () -> {
            try (FakeInit init = new FakeInit()) {
                CountDownLatch mayEnd = new CountDownLatch(1);
                Worker worker = new Worker(init.options()).job("a", job -> {
                    mayEnd.await();
                    return null;
                });
                init.start(worker);
                init.job("1", "a", "[]");
                init.send("{\"type\":\"ping\",\"id\":1}");
                Check.equal("pong", init.next().get("type"));
                worker.stop();
                Check.equal(0L, init.next().get("concurrency"));
                init.job("2", "a", "[]");
                Check.json("{\"type\":\"release\",\"job_id\":\"2\",\"reason\":\"the worker is ending\"}", init.next());
                mayEnd.countDown();
                Check.json("{\"type\":\"ack\",\"job_id\":\"1\"}", init.next());
                Check.equal(null, init.ending());
            }
        });
        Check.that("after run has returned, pings are still answered until the process ends", () -> {
            try (FakeInit init = new FakeInit()) {
                init.start(new Worker(init.options()).job("a", job -> null));
                init.send("{\"type\":\"lifecycle\",\"state\":\"terminate\",\"reason\":\"sigterm\",\"remaining_ms\":5000}");
                Check.equal(null, init.ending());
                init.send("{\"type\":\"ping\",\"id\":3}");
                Check.json("{\"type\":\"pong\",\"id\":3}", init.next());
            }
        });
        Check.that("a connection that closes cancels the jobs as lost, and run throws ConnectionLost", () -> {
            try (FakeInit init = new FakeInit()) {
                AtomicReference<String> reason = new AtomicReference<>();
                CountDownLatch isRunning = new CountDownLatch(1);
                init.start(new Worker(init.options()).job("a", job -> {
                    isRunning.countDown();
                    job.awaitCancelled();
                    reason.set(job.cancelReason().orElse(null));
                    return null;
                }));
                init.job("1", "a", "[]");
                isRunning.await();
                init.closeSocket();
                Check.equal(OjsException.ConnectionLost.class, init.ending().getClass());
                Check.equal("lost", reason.get());
            }
        });
    }
}
