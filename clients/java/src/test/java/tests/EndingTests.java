package tests;

import dev.ojs.worker.Delivery;
import dev.ojs.worker.Discard;
import dev.ojs.worker.Handler;
import dev.ojs.worker.Job;
import dev.ojs.worker.Json;
import dev.ojs.worker.Outcome;
import dev.ojs.worker.Release;
import dev.ojs.worker.Retry;
import dev.ojs.worker.Worker;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.logging.Level;

/** What ends the steps and rows of a job ends the job: whatever its handler makes of that. */
final class EndingTests {
    private static final String RESUMES = "resumes at its checkpoint";

    private EndingTests() {}

    static void run() {
        loops();
        changes();
        failedSteps();
        middleware();
        copies();
        logs();
    }

    private static Worker worker(Handler handler) {
        return new Worker().job("a", handler);
    }

    private static Delivery saved(String form) {
        return new Delivery().checkpoint(Json.parse(form));
    }

    /** A shutdown that leaves no time for a row. */
    private static Delivery shutdown() {
        return new Delivery().stopping(Duration.ofMillis(100));
    }

    /** Runs it, and catches all that it throws. */
    private static Throwable caught(Check.Body body) {
        try {
            body.run();
            return null;
        } catch (Throwable thrown) {
            return thrown;
        }
    }

    private static void loops() {
        Check.that("a step whose body catches the end of its loop is not finished, and its job is given back", () -> {
            Outcome outcome = worker(job -> {
                caught(() -> job.step("load", () -> {
                    caught(() -> {
                        for (int row : job.iterate(ResumeTests.numbers(3))) {
                            Thread.sleep(300);
                        }
                    });
                    return "whole";
                }));
                caught(() -> job.step("tell", () -> "told"));
                return "done";
            }).perform(new Delivery().stopping(Duration.ofMillis(700)), "a");
            Check.equal("release " + RESUMES, outcome.outcome() + " " + outcome.reason().orElse(""));
            Check.json("{\"ojs_resume\":1,\"steps\":[],\"cursors\":{\"load\":0},\"state\":null}", outcome.checkpoint());
        });
        Check.that("what a handler means after the end of its loop counts, but not what it makes of that", () -> {
            Map<String, Function<Throwable, Exception>> makes = new LinkedHashMap<>();
            makes.put("release " + RESUMES, end -> new IllegalStateException("a bug"));
            makes.put("release  " + RESUMES, end -> new Retry("no rows").cause(end));
            makes.put("release mine", end -> new Release("mine"));
            makes.put("fail ", end -> new Discard("no"));
            makes.forEach((wanted, made) -> {
                Outcome outcome = worker(job -> {
                    throw made.apply(caught(() -> job.iterate(ResumeTests.numbers(3)).forEach(row -> {})));
                }).perform(shutdown(), "a");
                Check.equal(wanted.replace("  ", " "), outcome.outcome() + " " + outcome.reason().orElse(""));
            });
        });
    }

    private static void changes() {
        Check.that("StepsChanged ends the job, also where the handler catches it", () -> {
            List<String> ran = new ArrayList<>();
            Outcome outcome = worker(job -> {
                caught(() -> job.step("other", () -> ran.add("other")));
                caught(() -> job.step("pay", () -> ran.add("pay")));
                return "done";
            }).perform(saved("{\"ojs_resume\":1,\"steps\":[[\"thumbnail\",1]],\"cursors\":{},\"state\":null}"), "a");
            Check.equal("StepsChanged", outcome.error().get("type"));
            Check.equal(List.of(), ran);
        });
        Check.that("a loop whose rows have changed ends the job, and the step around it is not finished", () -> {
            Outcome outcome = worker(job -> {
                caught(() -> job.step("load", () -> {
                    caught(() -> job.iterate(ResumeTests.numbers(3), row -> row).forEach(row -> {}));
                    return "whole";
                }));
                return "done";
            }).perform(saved("{\"ojs_resume\":1,\"steps\":[],\"cursors\":{\"load\":9},\"state\":null}"), "a");
            Check.equal("StepsChanged", outcome.error().get("type"));
            Check.equal(List.of(), outcome.checkpoints());
        });
    }

    private static void failedSteps() {
        Check.that("after a step that failed no other one begins: it gets the same error", () -> {
            List<String> ran = new ArrayList<>();
            Outcome outcome = worker(job -> {
                caught(() -> job.step("thumbnail", () -> {
                    throw new UnsupportedOperationException("no thumbnail");
                }));
                return job.step("pay", () -> ran.add("pay"));
            }).perform("a");
            Check.equal("UnsupportedOperationException", outcome.error().get("type"));
            Check.equal(true, outcome.error().get("retryable"));
            Check.equal(List.of(), ran);
        });
        Check.that("a step that failed may be called again, and its rows go on behind the last one", () -> {
            List<Object> done = new ArrayList<>();
            Outcome outcome = worker(job -> {
                caught(() -> load(job, done));
                load(job, done);
                return job.step("tell", () -> "told");
            }).perform("a");
            Check.equal("told", outcome.result());
            Check.equal(List.of(0, 1, "!", 2, 3), done);
        });
        Check.that("a step that is too large to keep leaves the position of its rows as it was", () -> {
            Outcome outcome = worker(job -> {
                Throwable tooLarge = caught(() -> job.step("load", () -> {
                    job.iterate(ResumeTests.numbers(3)).forEach(row -> {});
                    return "x".repeat(70_000);
                }));
                throw new Retry(String.valueOf(tooLarge));
            }).perform("a");
            Check.json("{\"ojs_resume\":1,\"steps\":[],\"cursors\":{\"load\":2},\"state\":null}", outcome.checkpoint());
        });
    }

    private static void load(Job job, List<Object> done) throws Exception {
        job.step("load", () -> {
            for (int row : job.iterate(ResumeTests.numbers(4))) {
                if (row == 2 && done.size() == 2) {
                    done.add("!");
                    throw new IllegalStateException("boom");
                }
                done.add(row);
            }
        });
    }

    private static void middleware() {
        Check.that("where a middleware tries again, finished steps give their result, and rows go on behind the last one", () -> {
            List<Object> ran = new ArrayList<>();
            Worker worker = worker(job -> {
                Object one = job.step("one", () -> ran.add("one"));
                load(job, ran);
                return List.of(one, job.step("two", () -> "2"));
            });
            worker.middleware((job, next) -> {
                job.step("zero", () -> ran.add("zero"));
                return next.run();
            });
            worker.middleware((job, next) -> {
                Object[] result = {null};
                return caught(() -> result[0] = next.run()) == null ? result[0] : next.run();
            });
            Outcome outcome = worker.perform("a");
            Check.json("[true,\"2\"]", outcome.result());
            Check.equal(List.of("zero", "one", "!", 0, 1, 2, 3), moved(ran));
        });
    }

    /** The mark where it failed, in front of the rows. */
    private static List<Object> moved(List<Object> ran) {
        List<Object> sorted = new ArrayList<>(ran);
        sorted.remove("!");
        sorted.add(2, "!");
        return sorted;
    }

    @SuppressWarnings("unchecked")
    private static void change(Object map) {
        ((Map<String, Object>) map).put("n", "changed");
    }

    private static void copies() {
        Check.that("what the handler changes afterwards is not saved: results, the last checkpoint, keys", () -> {
            Outcome outcome = worker(job -> {
                change(job.lastCheckpoint());
                change(job.step("one", () -> 1));
                change(job.step("two", () -> Map.of("n", 2)));
                for (Object row : job.iterateFrom(position -> {
                    change(position);
                    return List.of(1);
                }, row -> row)) {
                    throw new IllegalStateException("boom");
                }
                return null;
            }).perform(saved("{\"ojs_resume\":1,\"steps\":[[\"one\",{\"n\":1}]],\"cursors\":{\"\":{\"n\":7}},\"state\":{\"n\":0}}"), "a");
            Check.json("{\"ojs_resume\":1,\"steps\":[[\"one\",{\"n\":1}],[\"two\",{\"n\":2}]],\"cursors\":{\"\":{\"n\":7}},"
                    + "\"state\":{\"n\":0}}", outcome.checkpoint());
        });
    }

    private static void logs() {
        Check.that("an error behind the end of a loop is in the log with its stack, and the job goes back", () -> {
            Worker worker = worker(job -> {
                caught(() -> job.iterate(ResumeTests.numbers(3)).forEach(row -> {}));
                throw new ArithmeticException("a bug");
            });
            String lines = LogTests.logged(Level.WARNING, () -> Check.equal("release", worker.perform(shutdown(), "a").outcome()));
            Map<?, ?> line = LogTests.only(lines);
            Check.equal("WARN", line.get("severity"));
            Map<?, ?> error = (Map<?, ?>) line.get("error");
            Check.equal("ArithmeticException", error.get("type"));
            Check.contains("EndingTests", String.valueOf(error.get("stack")));
        });
        Check.that("the end of a loop on its way out has nothing in the log", () -> {
            Worker worker = worker(job -> {
                Throwable end = caught(() -> job.iterate(ResumeTests.numbers(3)).forEach(row -> {}));
                throw new IllegalStateException("no rows", end);
            });
            Check.equal("", LogTests.logged(Level.WARNING, () -> Check.equal("release", worker.perform(shutdown(), "a").outcome())));
        });
        Check.that("a failure of the library's own, and one with a cause, is in the log once, at error", () -> {
            Map<String, Handler> handlers = Map.of("InvalidResult", job -> Double.NaN,
                    "InvalidArgs", job -> job.arg(0, String.class),
                    "ArithmeticException", job -> {
                        throw new Retry("later").cause(new ArithmeticException("far"));
                    });
            for (String type : handlers.keySet()) {
                Map<?, ?> line = LogTests.only(
                        LogTests.logged(Level.WARNING, () -> Check.equal(type, worker(handlers.get(type)).perform("a").error().get("type"))));
                Check.equal("ERROR", line.get("severity"));
                Check.contains("at ", String.valueOf(((Map<?, ?>) line.get("error")).get("stack")));
            }
        });
    }
}
