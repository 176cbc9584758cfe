package dev.ojs.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.MDC;

/** Handlers and their outcomes, over the path that serves the socket. */
@Timeout(60)
class PerformTest {
    private final Worker worker = new Worker();

    record Mail(String to, int count) {}

    record Nested(@JsonProperty("the_id") UUID id, List<Mail> mails) {}

    record Sent(String messageId) {}

    record WithInstant(Instant at) {}

    public static final class Pojo {
        public String to;
    }

    static final class Unreadable {
        private final int hidden;

        Unreadable(int hidden, int other) {
            this.hidden = hidden + other;
        }
    }

    record Holder(List<Unreadable> list) {}

    private Map<String, Object> failure(Object... args) {
        return worker.perform("a", args).error();
    }

    // Typed handlers

    @Test
    void aRecordTakesArgumentsInOrderAndByName() {
        worker.job("a", Mail.class, Mail.class, (mail, job) -> mail);
        Map<String, Object> expected = Map.of("to", "ann", "count", 2);
        assertEquals(expected, worker.perform("a", "ann", 2).result());
        assertEquals(expected, worker.perform("a", expected).result());
    }

    @Test
    void invalidArgsNameThePositionAndTheKindsButNotTheValue() {
        worker.job("a", Mail.class, (mail, job) -> mail);
        assertEquals("args[1] (count): int is expected, not this string", failure("ann", "secret").get("message"));
        assertEquals("args[0] (to): String is expected, not this integer", failure(7, 2).get("message"));
        assertEquals("args[1] (count): int is expected, and it is missing", failure("ann").get("message"));
        assertEquals("args: at most 2 are expected [to, count], not 3", failure("ann", 2, 3).get("message"));
        assertEquals("args[0].count: int is expected, not this array",
                failure(Map.of("to", "ann", "count", List.of())).get("message"));
        Map<String, Object> error = failure("ann", 2.5);
        assertEquals(List.of("InvalidArgs", "invalid_args", false),
                List.of(error.get("type"), error.get("code"), error.get("retryable")));
    }

    @Test
    void anArgumentIsCheckedByItself() {
        worker.job("a", job -> job.arg(1, int.class));
        assertEquals(3, worker.perform("a", "x", 3).result());
        assertEquals("args[1]: int is expected, not this string", failure("x", "secret").get("message"));
        assertEquals("args[1]: int is expected, and it is missing", failure("x").get("message"));
    }

    @Test
    void annotationsAndNestedTypesAreThoseOfJackson() {
        worker.job("a", Nested.class, (nested, job) -> nested);
        String id = "7d444840-9dc0-11d1-b245-5ffdce74fad2";
        assertEquals(Map.of("the_id", id, "mails", List.of(Map.of("to", "x", "count", 1))),
                worker.perform("a", id, List.of(Map.of("to", "x", "count", 1))).result());
        assertEquals("args[1] (mails)[0].count: int is expected, not this string",
                worker.perform("a", id, List.of(Map.of("to", "x", "count", "many"))).error().get("message"));
    }

    @Test
    void aPojoIsOneArgumentAndAListIsAll() {
        worker.job("a", Pojo.class, (pojo, job) -> pojo.to).job("all", List.class, (list, job) -> list);
        assertEquals("ann", worker.perform("a", Map.of("to", "ann")).result());
        assertEquals("args[0]: Pojo is expected, and it is missing", failure().get("message"));
        assertEquals(List.of(1, "x"), worker.perform("all", 1, "x").result());
    }

    @Test
    void theNamingPolicyIsThatOfTheMapper() {
        ObjectMapper snake = new ObjectMapper().setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE);
        Outcome sent = new Worker(new Options().mapper(snake)).job("a", job -> new Sent("m1")).perform("a");
        assertEquals(Map.of("message_id", "m1"), sent.result());
    }

    @Test
    void typesThatCanNeverWorkAreRefusedAtTheRegistration() {
        for (Class<?> type : List.of(Unreadable.class, Holder.class, WithInstant.class, Runnable.class)) {
            String message = assertThrows(IllegalArgumentException.class, () -> worker.job("a", type, (args, job) -> null))
                    .getMessage();
            assertTrue(message.contains("record Mail(String to, String body)"), message);
        }
        assertThrows(IllegalArgumentException.class,
                () -> worker.job("a", Mail.class, Unreadable.class, (mail, job) -> new Unreadable(1, 2)));
        worker.job("a", Mail.class, Object.class, (mail, job) -> mail).job("b", Mail.class, Void.class, (mail, job) -> null);
    }

    // Outcomes

    @Test
    void numbersAreExact() {
        worker.job("a", Job::args);
        List<Object> numbers = List.of(1, 9007199254740993L, new java.math.BigInteger("18446744073709551616"),
                new java.math.BigDecimal("0.10000000000000000000000001"));
        assertEquals(numbers, worker.perform("a", numbers.toArray()).result());
    }

    @Test
    void aResultThatJacksonCannotWriteIsLeftOut() {
        List<Object> cycle = new ArrayList<>();
        cycle.add(cycle);
        worker.job("cycle", job -> cycle).job("class", job -> new Unreadable(1, 2));
        for (String type : List.of("cycle", "class")) {
            Outcome outcome = worker.perform(type);
            assertEquals("ack", outcome.outcome());
            assertNull(outcome.result());
        }
    }

    @Test
    void anyErrorFailsTheJobWithItsStackAndCauses() {
        worker.job("a", job -> {
            throw new IllegalStateException("broken", new ArithmeticException("cause"));
        });
        Map<String, Object> error = failure();
        assertEquals(List.of("broken", "IllegalStateException", "handler_error", true),
                List.of(error.get("message"), error.get("type"), error.get("code"), error.get("retryable")));
        List<?> backtrace = (List<?>) error.get("backtrace");
        assertTrue(backtrace.get(0).toString().contains("PerformTest"), backtrace.toString());
        assertTrue(backtrace.contains("Caused by: ArithmeticException: cause"), backtrace.toString());
        assertFalse(backtrace.toString().contains("Execution"), backtrace.toString());
    }

    @Test
    void errorsOfEveryKindAreAnswered() {
        worker.job("deep", job -> deep(1)).job("text", job -> {
            throw new IllegalStateException("half \ud83d");
        }).job("unnamed", job -> {
            throw new IllegalStateException() { };
        }).job("rude", job -> {
            throw new IllegalStateException() {
                @Override
                public String getMessage() {
                    throw new IllegalStateException();
                }
            };
        }).job("details", job -> {
            throw new Retry("x").details(Map.of("it", new Unreadable(1, 2)));
        });
        for (String type : List.of("deep", "text", "unnamed", "rude", "details")) {
            assertEquals("fail", worker.perform(type).outcome());
        }
        assertEquals("half ?", worker.perform("text").error().get("message"));
    }

    private static int deep(int level) {
        return deep(level + 1) + 1;
    }

    @Test
    void retryDiscardAndReleaseCountAlsoWhereTheyAreWrapped() {
        worker.job("retry", job -> {
            throw new Retry("busy").after(Duration.ofSeconds(60)).code("x_busy").type("Busy").details(Map.of("a", 1));
        }).job("discard", job -> {
            throw new ExecutionException(new Discard("no").cause(new IllegalStateException("why")));
        }).job("release", job -> {
            throw new IllegalStateException(new Release("later"));
        });
        Map<String, Object> retry = worker.perform("retry").error();
        assertEquals(Map.of("retry_after_ms", 60000, "a", 1), retry.get("details"));
        assertEquals(List.of("x_busy", "Busy", true), List.of(retry.get("code"), retry.get("type"), retry.get("retryable")));
        Map<String, Object> discard = worker.perform("discard").error();
        assertEquals(List.of("no", "IllegalStateException", false),
                List.of(discard.get("message"), discard.get("type"), discard.get("retryable")));
        assertEquals("later", worker.perform("release").reason().orElseThrow());
    }

    @Test
    void theFailureListenerSeesEachFailureOnce() {
        List<String> seen = new ArrayList<>();
        worker.onFailure((job, error) -> seen.add(job.type() + " " + error.getClass().getSimpleName()));
        worker.job("typed", Mail.class, (mail, job) -> mail).job("error", job -> {
            throw new IllegalStateException();
        }).job("release", job -> {
            throw new Release("x");
        }).job("timeout", job -> {
            Thread.sleep(3_600_000);
            return null;
        });
        List.of("typed", "error", "release", "none").forEach(worker::perform);
        assertEquals("timeout", worker.perform(new Delivery().timeout(Duration.ofMillis(1)), "timeout").error().get("code"));
        assertEquals(List.of("typed InvalidArgs", "error IllegalStateException", "timeout Retry"), seen);
    }

    @Test
    void anErrorOfTheListenerDoesNotReplaceTheFailure() {
        worker.onFailure((job, error) -> { throw new AssertionError("the tracker is down"); });
        worker.job("a", job -> {
            throw new Discard("no such user").type("Gone");
        });
        Map<String, Object> error = worker.perform("a").error();
        assertEquals(List.of("no such user", "Gone", false), List.of(error.get("message"), error.get("type"), error.get("retryable")));
    }

    @Test
    void aFailureWhoseMessageThrowsIsAWholeFailureThatTheListenerSeesOnce() {
        List<Throwable> seen = new ArrayList<>();
        worker.onFailure((job, error) -> seen.add(error)).job("a", job -> {
            throw new Silent();
        });
        Map<String, Object> error = worker.perform("a").error();
        assertEquals(List.of(Silent.class.getName(), "handler_error", true),
                List.of(error.get("type"), error.get("code"), error.get("retryable")));
        assertEquals(1, seen.size());
    }

    private static final class Silent extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override public String getMessage() { throw new IllegalStateException(); }
    }

    // The job

    @Test
    void middlewareRunsAroundHandlersTheFirstOneOutermost() {
        for (String name : List.of("outer", "inner")) {
            worker.middleware((job, next) -> name + "(" + next.run() + ")");
        }
        worker.job("a", job -> "done");
        assertEquals("outer(inner(done))", worker.perform("a").result());
    }

    @Test
    void theMdcHasTheJobWhileItsHandlerRuns() {
        worker.job("a", job -> MDC.getCopyOfContextMap());
        Delivery delivery = new Delivery().attempt(2).field("meta", Map.of("traceparent", "00-abc-def-01", "log_level", "warn"));
        assertEquals(Map.of("job_id", "test-job", "job_type", "a", "queue", "default", "attempt", "2", "trace_id", "abc",
                "span_id", "def", "log_level", "warn"), worker.perform(delivery, "a").result());
    }

    @Test
    void theLastAttemptIsKnownIfTheBackendSaysHowManyThereAre() {
        worker.job("a", Job::isLastAttempt);
        assertEquals(false, worker.perform("a").result());
        assertEquals(false, worker.perform(new Delivery().field("max_attempts", 2), "a").result());
        assertEquals(true, worker.perform(new Delivery().attempt(2).field("max_attempts", 2), "a").result());
    }

    @Test
    void catchExceptionDoesNotStopACancel() {
        worker.job("a", job -> {
            try {
                job.awaitCancelled();
                job.throwIfCancelled();
            } catch (Exception swallowed) {
                return "swallowed";
            }
            return null;
        });
        Outcome outcome = worker.perform(new Delivery().cancel(Duration.ZERO, "shutdown"), "a");
        assertEquals("shutdown", outcome.reason().orElseThrow());
    }

    @Test
    void performShowsProgressCheckpointsAndHeartbeats() {
        worker.job("a", job -> {
            job.heartbeat();
            job.progress(7, "all");
            job.checkpoint(Map.of("page", 1));
            return job.lastCheckpoint(Sent.class).messageId();
        });
        Outcome outcome = worker.perform(new Delivery().checkpoint(new Sent("m0")), "a");
        assertEquals("m0", outcome.result());
        assertEquals(List.of(1, Map.of("page", 1)), List.of(outcome.heartbeats(), outcome.checkpoint()));
        assertEquals("all", outcome.progress().get(0).get("message"));
    }

    @Test
    void performDoesNotWaitForEver() {
        worker.job("a", job -> {
            job.awaitCancelled();
            return null;
        });
        assertThrows(OjsException.class, () -> worker.perform(new Delivery().patience(Duration.ofMillis(1)), "a"));
    }
}
