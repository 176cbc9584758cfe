package tests;

import dev.ojs.worker.Delivery;
import dev.ojs.worker.Job;
import dev.ojs.worker.Json;
import dev.ojs.worker.Outcome;
import dev.ojs.worker.Worker;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;

/** Work that goes on where it stopped. */
final class ResumeTests {
    private ResumeTests() {}

    private record Row(int id) {}

    static List<Integer> numbers(int count) {
        return IntStream.range(0, count).boxed().toList();
    }

    static void run() {
        rows();
        keys();
        positions();
        steps();
        limits();
        depths();
        beside();
        changes();
    }

    /** A worker whose job does rows and gives up before the row with this number. */
    private static Worker stopsBefore(int stop, List<Integer> done) {
        return new Worker().job("rows", job -> {
            for (int row : job.iterate(numbers(6))) {
                if (row == stop) {
                    throw new IllegalStateException("broken");
                }
                done.add(row);
            }
            return "all";
        });
    }

    private static void rows() {
        Check.that("a job that fails goes on behind the row that it finished last", () -> {
            List<Integer> done = new ArrayList<>();
            Outcome first = stopsBefore(3, done).perform("rows");
            Check.equal("fail", first.outcome());
            Check.json("{\"ojs_resume\":1,\"steps\":[],\"cursors\":{\"\":2},\"state\":null}", first.checkpoint());
            Outcome second = stopsBefore(9, done).perform(new Delivery().checkpoint(first.checkpoint()), "rows");
            Check.equal("all", second.result());
            Check.equal(numbers(6), done);
        });
        Check.that("a row in which the handler ends otherwise is done again", () -> {
            List<Integer> done = new ArrayList<>();
            Worker worker = new Worker().job("rows", job -> {
                for (int row : job.iterate(numbers(3))) {
                    done.add(row);
                    if (done.size() == 2) {
                        throw new IllegalStateException("within a row");
                    }
                }
                return null;
            });
            Outcome first = worker.perform("rows");
            worker.perform(new Delivery().checkpoint(first.checkpoint()), "rows");
            Check.equal(List.of(0, 1, 1, 2), done);
        });
        Check.that("a job that is done, or discarded, saves no position in the end", () -> {
            Worker worker = new Worker().job("rows", job -> {
                job.iterate(numbers(3)).forEach(row -> {});
                if (!job.args().isEmpty()) {
                    throw new dev.ojs.worker.Discard("no");
                }
                return null;
            });
            Check.equal(List.of(), worker.perform("rows").checkpoints());
            Check.equal(List.of(), worker.perform("rows", 1).checkpoints());
        });
        Check.that("asking twice whether there is another row finishes no row", () -> {
            Worker worker = new Worker().job("rows", job -> {
                var rows = job.iterate(numbers(3)).iterator();
                rows.next();
                rows.hasNext();
                rows.hasNext();
                throw new IllegalStateException("stop");
            });
            Check.json("{\"\":0}", ((Map<?, ?>) worker.perform("rows").checkpoint()).get("cursors"));
        });
        Check.that("two loops in one place are an error that says what to do", () -> {
            Worker worker = new Worker().job("rows", job -> {
                job.iterate(numbers(1)).forEach(row -> {});
                job.iterate(numbers(1)).forEach(row -> {});
                return null;
            });
            Check.contains("give each a job.step", (String) worker.perform("rows").error().get("message"));
        });
    }

    private static void keys() {
        Worker worker = new Worker().job("rows", job -> {
            List<Integer> done = new ArrayList<>();
            List<Row> rows = job.args().stream().map(id -> new Row(((Number) id).intValue())).toList();
            for (Row row : job.iterate(rows, Row::id)) {
                if (row.id() == 30) {
                    throw new IllegalStateException("broken");
                }
                done.add(row.id());
            }
            return done;
        });
        Object saved = worker.perform("rows", 10, 20, 30).checkpoint();
        Check.that("with a key the position is the key of the last finished row", () ->
                Check.json("{\"\":20}", ((Map<?, ?>) saved).get("cursors")));
        Check.that("rows are skipped up to the key, although rows in front of it are new", () ->
                Check.json("[40]", worker.perform(new Delivery().checkpoint(saved), "rows", 5, 10, 20, 40).result()));
        Check.that("a key that does not come any more is StepsChanged, and the message names it", () -> {
            Map<String, Object> error = worker.perform(new Delivery().checkpoint(saved), "rows", 10, 40).error();
            Check.equal("StepsChanged", error.get("type"));
            Check.equal(false, error.get("retryable"));
            Check.contains("20", (String) error.get("message"));
        });
        Check.that("a position that was a key cannot become a count", () -> {
            Worker counts = new Worker().job("rows", job -> {
                job.iterate(numbers(9)).forEach(row -> {});
                return null;
            });
            Object key = Json.parse("{\"ojs_resume\":1,\"steps\":[],\"cursors\":{\"\":\"x\"},\"state\":null}");
            Check.equal("StepsChanged", counts.perform(new Delivery().checkpoint(key), "rows").error().get("type"));
        });
        Check.that("an index that a backend spells 1.0 is an index", () -> {
            Worker counts = new Worker().job("rows", job -> {
                List<Object> done = new ArrayList<>();
                job.iterate(numbers(4)).forEach(done::add);
                return done;
            });
            Object index = Json.parse("{\"ojs_resume\":1,\"steps\":[],\"cursors\":{\"\":1.0},\"state\":null}");
            Check.json("[2,3]", counts.perform(new Delivery().checkpoint(index), "rows").result());
        });
        Check.that("a key is the same however a backend spells its numbers, and a very large one costs no time", () -> {
            Worker echo = new Worker().job("rows", job -> {
                List<Object> done = new ArrayList<>();
                job.iterate(job.args(), key -> key).forEach(done::add);
                return done;
            });
            Map<String, String> spelled = Map.of("10", "10.0", "1e1", "10", "[1,{\"a\":2}]", "[1.0,{\"a\":0.2e1}]",
                    "1e999999999", "10e999999998", "1.5e999999999", "15e999999998", "\"10\"", "\"10\"");
            for (String key : spelled.keySet()) {
                Object given = Json.parse("{\"ojs_resume\":1.0,\"steps\":[],\"cursors\":{\"\":" + spelled.get(key) + "}}");
                Outcome outcome = echo.perform(new Delivery().checkpoint(given), "rows", 11, Json.parse(key), "next");
                Check.json("[\"next\"]", outcome.result());
            }
        });
        Check.that("a key that is null is an error", () -> {
            Worker nulls = new Worker().job("rows", job -> {
                job.iterate(numbers(9), row -> null).forEach(row -> {});
                return null;
            });
            Check.contains("key of a row is null", (String) nulls.perform("rows").error().get("message"));
        });
    }

    private static void positions() {
        Check.that("rows can be asked for from a position on, first with null", () -> {
            List<Object> asked = new ArrayList<>();
            Worker worker = new Worker().job("rows", job -> {
                Iterable<Integer> rows = job.iterateFrom(after -> {
                    asked.add(after);
                    return numbers(6).subList(after == null ? 0 : ((Number) after).intValue() + 1, 6);
                }, row -> row);
                for (int row : rows) {
                    if (row == 3 && asked.size() == 1) {
                        throw new IllegalStateException("broken");
                    }
                }
                return null;
            });
            Outcome first = worker.perform("rows");
            Check.equal("ack", worker.perform(new Delivery().checkpoint(first.checkpoint()), "rows").outcome());
            Check.json("[null,2]", asked);
        });
        Check.that("counted rows go on being counted behind the position", () -> {
            Worker worker = new Worker().job("rows", job -> {
                for (int row : job.<Integer>iterateFrom(after -> numbers(9).subList(after == null ? 0 : 5, 9))) {
                    if (row == job.arg(0, int.class)) {
                        throw new IllegalStateException("broken");
                    }
                }
                return null;
            });
            Object first = worker.perform("rows", 5).checkpoint();
            Object second = worker.perform(new Delivery().checkpoint(first), "rows", 7).checkpoint();
            Check.json("{\"\":6}", ((Map<?, ?>) second).get("cursors"));
        });
    }

    private static Worker steps(List<String> ran) {
        return new Worker().job("steps", job -> {
            List<Object> results = new ArrayList<>();
            for (Object name : job.args()) {
                results.add(job.step((String) name, () -> {
                    if (name.equals("fail")) {
                        throw new IllegalStateException("broken");
                    }
                    ran.add((String) name);
                    return Map.of("of", name);
                }));
            }
            return results;
        });
    }

    private static void steps() {
        Check.that("a finished step is a checkpoint, and is not run again", () -> {
            List<String> ran = new ArrayList<>();
            Worker worker = steps(ran);
            Outcome first = worker.perform("steps", "a", "b", "fail");
            Check.equal(2, first.checkpoints().size());
            Check.json("{\"ojs_resume\":1,\"steps\":[[\"a\",{\"of\":\"a\"}],[\"b\",{\"of\":\"b\"}]],\"cursors\":{},\"state\":null}",
                    first.checkpoint());
            Outcome second = worker.perform(new Delivery().checkpoint(first.checkpoint()), "steps", "a", "b", "c");
            Check.json("[{\"of\":\"a\"},{\"of\":\"b\"},{\"of\":\"c\"}]", second.result());
            Check.equal(List.of("a", "b", "c"), ran);
        });
        Check.that("a step has a result of a type, the same in each attempt, or none", () -> {
            Worker worker = new Worker().job("steps", job -> {
                Row row = job.step("row", Row.class, () -> new Row(7));
                job.step("nothing", () -> {});
                return row.id();
            });
            Outcome first = worker.perform("steps");
            Check.equal(7L, first.result());
            Check.equal(7L, worker.perform(new Delivery().checkpoint(first.checkpoint()), "steps").result());
        });
        Check.that("the program's own state is kept beside steps and rows, and given back as lastCheckpoint", () -> {
            Worker worker = new Worker().job("steps", job -> {
                if (job.lastCheckpoint() != null) {
                    return job.lastCheckpoint();
                }
                job.checkpoint(Map.of("page", 3));
                job.step("a", () -> {
                    for (int row : job.iterate(numbers(3))) {
                        if (row == 2) {
                            job.checkpoint(Map.of("page", 4));
                            throw new IllegalStateException("broken");
                        }
                    }
                });
                return null;
            });
            Outcome first = worker.perform("steps");
            Check.json("{\"page\":3}", first.checkpoints().get(0));
            Check.json("{\"ojs_resume\":1,\"steps\":[],\"cursors\":{\"a\":1},\"state\":{\"page\":4}}", first.checkpoint());
            Check.json("{\"page\":4}", worker.perform(new Delivery().checkpoint(first.checkpoint()), "steps").result());
        });
        Check.that("what the program saved before there were steps is kept when the first one is finished", () -> {
            Worker worker = new Worker().job("steps", job -> {
                job.step("a", () -> 1);
                throw new IllegalStateException(String.valueOf(job.lastCheckpoint()));
            });
            Object own = Json.parse("{\"page\":3}");
            Outcome second = worker.perform(new Delivery().checkpoint(own), "steps");
            Check.json("{\"ojs_resume\":1,\"steps\":[[\"a\",1]],\"cursors\":{},\"state\":{\"page\":3}}", second.checkpoint());
            Outcome third = worker.perform(new Delivery().checkpoint(second.checkpoint()), "steps");
            Check.equal("{page=3}", third.error().get("message"));
        });
        Check.that("the rows of a step that is finished leave no position behind", () -> {
            Worker worker = new Worker().job("steps", job -> {
                job.step("a", () -> job.iterate(numbers(3)).forEach(row -> {}));
                return null;
            });
            Check.json("{}", ((Map<?, ?>) worker.perform("steps").checkpoint()).get("cursors"));
        });
        Check.that("a step whose result is no JSON fails the job for good", () -> {
            Worker worker = new Worker().job("steps", job -> job.step("a", () -> new Object()));
            Map<String, Object> error = worker.perform("steps").error();
            Check.equal("InvalidResult", error.get("type"));
            Check.equal(false, error.get("retryable"));
        });
        Check.that("more than 64 KiB to keep is CheckpointTooLarge", () -> {
            Worker worker = new Worker().job("steps", job -> job.step("a", () -> "x".repeat(70_000)));
            Map<String, Object> error = worker.perform("steps").error();
            Check.equal("CheckpointTooLarge", error.get("type"));
            Check.equal(false, error.get("retryable"));
        });
    }

    private static void limits() {
        Check.that("a checkpoint that is too large, and is caught, does not spoil the next one", () -> {
            Worker worker = new Worker().job("steps", job -> {
                job.step("a", () -> 1);
                for (Object state : List.of("x".repeat(70_000), "small")) {
                    try {
                        job.checkpoint(state);
                    } catch (dev.ojs.worker.CheckpointTooLarge tooLarge) {
                        job.progress(0.5);
                    }
                }
                return null;
            });
            Outcome outcome = worker.perform("steps");
            Check.equal(1, outcome.progress().size());
            Check.equal("small", ((Map<?, ?>) outcome.checkpoint()).get("state"));
        });
    }

    private static Object nested(int depth) {
        return depth == 0 ? 1 : List.of(nested(depth - 1));
    }

    private static void depths() {
        Check.that("a state that is nested too deep is refused, and does not spoil what is saved next", () -> {
            Worker worker = new Worker().job("steps", job -> {
                job.step("a", () -> 1);
                job.checkpoint(nested(94));
                Check.fails(dev.ojs.worker.JsonException.class, () -> job.checkpoint(nested(99)));
                job.step("b", () -> nested(94));
                job.step("c", () -> nested(95));
                return null;
            });
            Outcome outcome = worker.perform("steps");
            Check.equal("InvalidResult", outcome.error().get("type"));
            Map<?, ?> saved = (Map<?, ?>) outcome.checkpoint();
            Check.json(Json.write(nested(94)), saved.get("state"));
            Check.json(Json.write(List.of(List.of("a", 1), List.of("b", nested(94)))), saved.get("steps"));
        });
        Check.that("a state that fits before there are steps fits with them", () -> {
            Worker worker = new Worker().job("steps", job -> {
                try {
                    job.checkpoint(nested(99));
                } catch (dev.ojs.worker.JsonException tooDeep) {
                    job.progress(0.5);
                }
                return job.step("a", () -> 1);
            });
            Check.equal(1L, worker.perform("steps").result());
        });
    }

    private static void beside() {
        Check.that("a checkpoint of another thread never takes a finished step back", () -> {
            Worker worker = new Worker().job("steps", job -> {
                AtomicBoolean isOver = new AtomicBoolean();
                List<Thread> savers = new ArrayList<>();
                for (int i = 0; i < 2; i++) {
                    savers.add(new Thread(() -> {
                        for (int n = 0; !isOver.get(); n++) {
                            job.checkpoint(n);
                        }
                    }));
                }
                job.step("first", () -> 0);
                savers.forEach(Thread::start);
                for (int i = 0; i < 300; i++) {
                    job.step("s" + i, () -> 0);
                }
                isOver.set(true);
                for (Thread saver : savers) {
                    saver.join();
                }
                return null;
            });
            int before = 0;
            for (Object checkpoint : worker.perform("steps").checkpoints()) {
                int now = ((List<?>) ((Map<?, ?>) checkpoint).get("steps")).size();
                Check.holds(now >= before, now + " steps are saved after " + before);
                before = now;
            }
        });
    }

    private static void changes() {
        Worker worker = steps(new ArrayList<>());
        Object saved = worker.perform("steps", "a", "b", "fail").checkpoint();
        Check.that("steps in another order are StepsChanged, and the message names both orders", () -> {
            Map<String, Object> error = worker.perform(new Delivery().checkpoint(saved), "steps", "a", "c").error();
            Check.equal("StepsChanged", error.get("type"));
            Check.equal(false, error.get("retryable"));
            Check.contains("had a, b; this one has a, c", (String) error.get("message"));
        });
        Check.that("another step than the one in which rows are open is StepsChanged", () -> {
            Object open = Json.parse("{\"ojs_resume\":1,\"steps\":[],\"cursors\":{\"import\":3},\"state\":null}");
            Map<String, Object> error = worker.perform(new Delivery().checkpoint(open), "steps", "a").error();
            Check.equal("StepsChanged", error.get("type"));
        });
        Check.that("two steps of one name, and a step within a step, are errors", () -> {
            Check.contains("two steps a", (String) worker.perform("steps", "a", "a").error().get("message"));
            Worker nested = new Worker().job("steps", job -> job.step("a", () -> job.step("b", () -> 1)));
            Check.contains("begins within step a", (String) nested.perform("steps").error().get("message"));
        });
        Check.that("a checkpoint that only looks like ours is the program's own", () -> {
            Worker echo = new Worker().job("steps", Job::lastCheckpoint);
            Object own = Json.parse("{\"ojs_resume\":1,\"steps\":[[1,2]],\"cursors\":{}}");
            Check.equal(own, echo.perform(new Delivery().checkpoint(own), "steps").result());
        });
    }
}
