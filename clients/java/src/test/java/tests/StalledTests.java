package tests;

import dev.ojs.worker.Handler;
import dev.ojs.worker.Job;
import dev.ojs.worker.OjsException;
import dev.ojs.worker.Worker;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** What is saved while ojs-init does not read. Each test waits 10 s for the library to give up: so all run at once. */
final class StalledTests {
    /** More than a socket takes. */
    private static final String MUCH = "x".repeat(2_000_000);

    private StalledTests() {}

    static void run() {
        Map<String, Check.Body> tests = new LinkedHashMap<>();
        tests.put("a checkpoint of which only a part is written is not saved, and the call says so", StalledTests::part);
        tests.put("a call that gives up does not take back the newer checkpoint of another one", StalledTests::newer);
        tests.put("a finished step whose save fails is saved in front of the answer", StalledTests::step);
        tests.put("a checkpoint whose save fails is saved in front of the answer", StalledTests::checkpoint);
        tests.put("a step whose save fails does not run again when it is called again", StalledTests::again);
        Map<String, CompletableFuture<Throwable>> ends = new LinkedHashMap<>();
        tests.forEach((sentence, body) -> ends.put(sentence, start(body)));
        ends.forEach((sentence, end) -> Check.that(sentence, () -> {
            Throwable failed = end.get(60, TimeUnit.SECONDS);
            if (failed != null) {
                throw failed;
            }
        }));
    }

    private static CompletableFuture<Throwable> start(Check.Body body) {
        CompletableFuture<Throwable> end = new CompletableFuture<>();
        thread(() -> {
            try {
                body.run();
                end.complete(null);
            } catch (Throwable failed) {
                end.complete(failed);
            }
        });
        return end;
    }

    private static Thread thread(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** Saves, and says how that ended. */
    private static String save(Job job, Object state) {
        try {
            job.checkpoint(state);
            return "saved";
        } catch (OjsException.Stalled stalled) {
            return "stalled";
        }
    }

    private static void part() throws Exception {
        try (FakeInit init = new FakeInit()) {
            CompletableFuture<String> end = new CompletableFuture<>();
            init.start(new Worker(init.options()).job("a", job -> end.complete(save(job, MUCH))));
            init.job("1", "a", "[]");
            Check.equal("stalled", end.get(30, TimeUnit.SECONDS));
        }
    }

    private static void newer() throws Exception {
        try (FakeInit init = new FakeInit()) {
            CompletableFuture<String> older = new CompletableFuture<>();
            CompletableFuture<String> newer = new CompletableFuture<>();
            CountDownLatch mayEnd = new CountDownLatch(1);
            init.start(new Worker(init.options()).job("a", job -> {
                job.progress(0.5, null, MUCH);
                thread(() -> older.complete(save(job, "older")));
                Thread.sleep(3000); // so that the other call gives up much later
                thread(() -> newer.complete(save(job, "newer")));
                mayEnd.await();
                return null;
            }));
            init.job("1", "a", "[]");
            Check.equal("stalled", older.get(30, TimeUnit.SECONDS));
            Check.equal("progress", init.next().get("type"));
            Check.equal("newer", init.next().get("state"));
            Check.equal("saved", newer.get(30, TimeUnit.SECONDS));
            mayEnd.countDown();
            Check.equal("ack", init.next().get("type"));
        }
    }

    /** What is saved in front of the answer of a handler that cannot save in time. */
    private static Object savedLate(Handler handler) throws Exception {
        try (FakeInit init = new FakeInit()) {
            CountDownLatch hasEnded = new CountDownLatch(1);
            init.start(new Worker(init.options()).job("a", job -> {
                job.progress(0.5, null, MUCH);
                try {
                    return handler.handle(job);
                } finally {
                    hasEnded.countDown();
                }
            }));
            init.job("1", "a", "[]");
            Check.holds(hasEnded.await(30, TimeUnit.SECONDS), "the handler ends");
            Check.equal("progress", init.next().get("type"));
            Map<String, Object> checkpoint = init.next();
            Check.equal("checkpoint", checkpoint.get("type"));
            Check.equal("Stalled", ((Map<?, ?>) init.next().get("error")).get("type"));
            return checkpoint.get("state");
        }
    }

    private static void step() throws Exception {
        Check.json("{\"ojs_resume\":1,\"steps\":[[\"pay\",\"paid\"]],\"cursors\":{},\"state\":null}",
                savedLate(job -> job.step("pay", () -> "paid")));
    }

    private static void again() throws Exception {
        AtomicInteger ran = new AtomicInteger();
        Check.json("{\"ojs_resume\":1,\"steps\":[[\"pay\",1]],\"cursors\":{},\"state\":null}", savedLate(job -> {
            Check.fails(OjsException.Stalled.class, () -> job.step("pay", ran::incrementAndGet));
            return job.step("pay", ran::incrementAndGet);
        }));
        Check.equal(1, ran.get());
    }

    private static void checkpoint() throws Exception {
        Check.json("{\"page\":3}", savedLate(job -> {
            job.checkpoint(Map.of("page", 3));
            return null;
        }));
    }
}
