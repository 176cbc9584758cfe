package tests;

import dev.ojs.worker.Delivery;
import dev.ojs.worker.Discard;
import dev.ojs.worker.Handler;
import dev.ojs.worker.Job;
import dev.ojs.worker.Outcome;
import dev.ojs.worker.Worker;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;

/** Work that goes on elsewhere: what is stopped between two rows or steps. */
final class StoppingTests {
    private static final String RESUMES = "resumes at its checkpoint";

    private StoppingTests() {}

    private static List<Integer> numbers(int count) {
        return ResumeTests.numbers(count);
    }

    static void run() {
        stopping();
        stopped();
    }

    private static Worker slow(long millis) {
        return new Worker().job("rows", job -> {
            for (int row : job.iterate(numbers(1000))) {
                Thread.sleep(millis);
            }
            return "all";
        });
    }

    private static void stopping() {
        Check.that("with less than 250 ms left no row begins, and the job is released", () -> {
            Outcome outcome = slow(1).perform(new Delivery().stopping(Duration.ofMillis(100)), "rows");
            Check.equal("release", outcome.outcome());
            Check.equal(RESUMES, outcome.reason().orElse(null));
            Check.equal(null, outcome.checkpoint());
        });
        Check.that("the loop ends by itself before a row that would be cut off", () -> {
            Worker worker = new Worker().job("rows", job -> {
                for (int row : job.iterate(numbers(1000))) {
                    Thread.sleep(row == 0 ? 800 : 1);
                }
                return "all";
            });
            Outcome outcome = worker.perform(
                    new Delivery().stopping(Duration.ofMillis(400), Duration.ofMillis(1500)), "rows");
            Check.equal(RESUMES, outcome.reason().orElse(null));
            Check.json("{\"\":0}", ((Map<?, ?>) outcome.checkpoint()).get("cursors"));
        });
        Check.that("with time left the job goes on", () -> Check.equal("all",
                new Worker().job("rows", job -> {
                    job.iterate(numbers(9)).forEach(row -> {});
                    return "all";
                }).perform(new Delivery().stopping(Duration.ofSeconds(30)), "rows").result()));
        Check.that("a step that takes longer than what is left does not begin", () -> {
            Worker worker = new Worker().job("steps", job -> {
                job.step("slow", () -> Thread.sleep(400));
                return "all";
            });
            Check.equal("ack", worker.perform("steps").outcome());
            Outcome outcome = worker.perform(new Delivery().stopping(Duration.ofMillis(500)), "steps");
            Check.equal(RESUMES, outcome.reason().orElse(null));
        });
        Check.that("a cancel for shutdown saves the rows that are finished and gives the job back", () -> {
            Outcome outcome = slow(5).perform(new Delivery().cancel(Duration.ofMillis(500), "shutdown"), "rows");
            Check.equal("release", outcome.outcome());
            Check.holds(outcome.checkpoint() != null, "a position is saved");
        });
        Check.that("after its timeout the job fails, with its position saved", () -> {
            Outcome outcome = slow(5).perform(new Delivery().timeout(Duration.ofMillis(500)), "rows");
            Check.equal("timeout", outcome.error().get("code"));
            Check.holds(outcome.checkpoint() != null, "a position is saved");
        });
        Check.that("a lost job saves nothing more", () -> {
            Outcome outcome = slow(5).perform(new Delivery().cancel(Duration.ofMillis(300), "lost"), "rows");
            Check.equal("release", outcome.outcome());
            Check.equal(null, outcome.checkpoint());
        });
    }

    /** A worker whose shutdown comes in the first row; the rows and what becomes of the stop are its body's. */
    private static Outcome stopped(Handler handler) {
        return new Worker().job("rows", handler)
                .perform(new Delivery().stopping(Duration.ofMillis(1), Duration.ofMillis(500)), "rows");
    }

    private static void await(Job job) throws InterruptedException {
        while (job.remaining().isEmpty() || job.remaining().get().toMillis() > 200) {
            Thread.sleep(1);
        }
    }

    private static void stopped() {
        Check.that("a handler that swallows the stop of its loop is released all the same, with its position", () -> {
            Outcome outcome = stopped(job -> {
                try {
                    for (int row : job.iterate(numbers(1000))) {
                        await(job);
                    }
                } catch (RuntimeException swallowed) {
                    return "unfinished";
                }
                return "all";
            });
            Check.equal(RESUMES, outcome.reason().orElse(null));
            Check.json("{\"\":0}", ((Map<?, ?>) outcome.checkpoint()).get("cursors"));
        });
        Check.that("a handler that makes another error of the stop is released all the same, with its position", () -> {
            Outcome outcome = stopped(job -> {
                try {
                    for (int row : job.iterate(numbers(1000))) {
                        await(job);
                    }
                } catch (RuntimeException caught) {
                    throw new IllegalStateException("import failed");
                }
                return "all";
            });
            Check.equal(RESUMES, outcome.reason().orElse(null));
            Check.json("{\"\":0}", ((Map<?, ?>) outcome.checkpoint()).get("cursors"));
        });
        Check.that("a stop that is wrapped on its way out is a release", () -> {
            Outcome outcome = stopped(job -> {
                await(job);
                try {
                    return job.step("a", () -> 1);
                } catch (RuntimeException caught) {
                    throw new CompletionException(caught);
                }
            });
            Check.equal(RESUMES, outcome.reason().orElse(null));
        });
        Check.that("a timeout whose stop is swallowed fails the job with code timeout", () -> {
            Outcome outcome = new Worker().job("rows", job -> {
                job.awaitCancelled();
                try {
                    job.step("a", () -> 1);
                } catch (RuntimeException swallowed) {
                    return "unfinished";
                }
                return "all";
            }).perform(new Delivery().timeout(Duration.ofMillis(1)), "rows");
            Check.equal("timeout", outcome.error().get("code"));
        });
        Check.that("what the handler says itself counts more than the stop", () -> {
            Outcome outcome = stopped(job -> {
                await(job);
                try {
                    return job.step("a", () -> 1);
                } catch (RuntimeException caught) {
                    throw new Discard("no use");
                }
            });
            Check.equal("no use", outcome.error().get("message"));
        });
    }
}
