package dev.ojs.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Resumable work over several attempts. */
@Timeout(60)
class ResumeTest {
    private final Worker worker = new Worker();
    private final List<Object> ran = new ArrayList<>();

    @Test
    void aShutdownSavesThePositionAndTheNextAttemptGoesOn() {
        worker.job("import", job -> {
            String file = job.step("download", String.class, () -> {
                ran.add("download");
                return "file";
            });
            job.step("rows", () -> {
                for (int row : job.iterate(List.of(1, 2, 3, 4), row -> "k" + row)) {
                    if (row == 3 && job.isStopping()) {
                        job.sleep(Duration.ofMinutes(1)); // the cancel ends it: this row comes again
                    }
                    ran.add(row);
                }
            });
            return file;
        });
        Outcome first = worker.perform(new Delivery().stopping(Duration.ofMillis(500)), "import");
        assertEquals("release", first.outcome());
        assertEquals(List.of("download", 1, 2), ran);
        assertEquals(Map.of("rows", "k2"), ((Map<?, ?>) first.checkpoint()).get("cursors"));
        Outcome second = worker.perform(new Delivery().checkpoint(first.checkpoint()), "import");
        assertEquals("file", second.result());
        assertEquals(List.of("download", 1, 2, 3, 4), ran);
    }

    @Test
    void nothingBeginsWhenAShutdownLeavesTooLittleTime() {
        worker.job("a", job -> job.step("x", () -> ran.add("x")));
        Outcome outcome = worker.perform(new Delivery().stopping(Duration.ofMillis(200)), "a");
        assertEquals("resumes at its checkpoint", outcome.reason().orElseThrow());
        assertEquals(List.of(), ran);
    }

    @Test
    void whatStepsTookIsKeptByTheirPlaceSoThatManyNamesNeedNoMemory() throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        Map<Integer, Long> took = new HashMap<>();
        for (int job = 0; job < 100; job++) {
            Resume resume = new Resume(mapper, mapper.nullNode(), state -> {}, usual -> ran.add(usual), took);
            resume.step("mail to " + job, () -> null);
            resume.step("log " + job, () -> null);
        }
        assertEquals(Set.of(1, 2), took.keySet());
        assertEquals(0L, ran.get(0));
        assertTrue((Long) ran.get(2) > 0, "the first step of the second job");
    }

    @Test
    void afterAFailureTheFinishedStepsAreNotDoneAgain() {
        worker.job("a", job -> {
            job.step("one", () -> ran.add("one"));
            job.step("two", () -> {
                ran.add("two");
                if (ran.size() == 2) {
                    throw new IllegalStateException("the first time");
                }
            });
            return null;
        });
        Outcome first = worker.perform("a");
        assertEquals("fail", first.outcome());
        assertEquals("ack", worker.perform(new Delivery().checkpoint(first.checkpoint()), "a").outcome());
        assertEquals(List.of("one", "two", "two"), ran);
    }

    @Test
    void theStateOfTheHandlerIsKeptBesideTheSteps() {
        worker.job("a", job -> {
            job.checkpoint(Map.of("mine", true));
            job.step("one", () -> null);
            job.step("two", () -> null);
            return job.lastCheckpoint();
        });
        Outcome first = worker.perform("a");
        assertEquals(Map.of("ojs_resume", 1, "cursors", Map.of(), "state", Map.of("mine", true)),
                without("steps", first.checkpoint()));
        assertEquals(Map.of("mine", true), worker.perform(new Delivery().checkpoint(first.checkpoint()), "a").result());
    }

    private static Map<?, ?> without(String key, Object map) {
        ((Map<?, ?>) map).remove(key);
        return (Map<?, ?>) map;
    }

    @Test
    void otherStepsOrRowsFailTheJobForGood() {
        Map<String, Object> before = Map.of("ojs_resume", 1, "steps", List.of(List.of("a", 1)), "cursors", Map.of("", "k9"));
        worker.job("steps", job -> job.step("b", () -> null));
        worker.job("rows", job -> {
            for (String row : job.iterate(List.of("k1", "k2"), row -> row)) {
                ran.add(row);
            }
            return null;
        });
        for (String type : List.of("steps", "rows")) {
            Map<String, Object> error = worker.perform(new Delivery().checkpoint(before), type).error();
            assertEquals(List.of("StepsChanged", false), List.of(error.get("type"), error.get("retryable")));
        }
        assertEquals(List.of(), ran);
    }

    @Test
    void aPositionThatIsTooLargeFailsTheJobInsteadOfBeginningAnew() {
        worker.job("a", job -> {
            job.step("large", () -> "x".repeat(70_000));
            throw new Release("later");
        });
        Map<String, Object> error = worker.perform("a").error();
        assertEquals("CheckpointTooLarge", error.get("type"));
        assertTrue(error.get("message").toString().contains("65536"));
    }

    @Test
    void mistakesWithStepsAndLoopsAreErrors() {
        worker.job("twice", job -> job.step("a", () -> job.step("b", () -> null)));
        worker.job("loops", job -> {
            job.iterate(List.of(1));
            return job.iterate(List.of(1));
        });
        assertTrue(worker.perform("twice").error().get("message").toString().contains("within step a"));
        assertTrue(worker.perform("loops").error().get("message").toString().contains("a job.step of its own"));
    }
}
