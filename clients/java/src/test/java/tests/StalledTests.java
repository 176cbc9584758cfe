package tests;

import dev.ojs.worker.Job;
import dev.ojs.worker.OjsException;
import dev.ojs.worker.Worker;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** What is saved while ojs-init does not read. Each test waits 10 s for the library to give up: so all run at once. */
final class StalledTests {
    /** More than a socket takes. */
    private static final String MUCH = "x".repeat(2_000_000);

    private StalledTests() {}

    static void run() {
        Map<String, Check.Body> tests = new LinkedHashMap<>();
        tests.put("a checkpoint of which only a part is written is not saved, and the call says so", StalledTests::part);
        tests.put("a call that gives up does not take back the newer checkpoint of another one", StalledTests::newer);
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
}
