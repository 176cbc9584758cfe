package dev.ojs.worker;

import java.util.*;
import java.util.function.BiConsumer;
import org.slf4j.MDC;

/** One job on its thread: middleware, handler, answer. */
final class Execution implements Runnable {
    private final Job job;
    private final Registry registry;
    private final BiConsumer<Job, byte[]> answers;

    /** @param answers takes the one answer of the job. */
    Execution(Job job, Registry registry, BiConsumer<Job, byte[]> answers) {
        this.job = job;
        this.registry = registry;
        this.answers = answers;
    }

    @Override
    public void run() {
        try {
            MDC.setContextMap(job.logFields());
            answers.accept(job, answer());
        } catch (Throwable noMemory) { // a job without an answer would be held for ever
            Runtime.getRuntime().halt(1);
        } finally {
            MDC.clear();
        }
    }

    private byte[] answer() {
        try {
            return ack(result());
        } catch (Throwable error) { // whatever it is, the job needs its answer
            try {
                return answerTo(error);
            } catch (Throwable broken) { // such as a getMessage that throws
                Registry.LOG.error("{}: its failure cannot be described: {}", job, broken.getClass().getName());
                return fail(new Retry("the failure has no message: describing it threw an error").type(error.getClass().getName()));
            }
        }
    }

    private Object result() throws Exception {
        try {
            job.begin();
            return call(registry.middlewares, 0);
        } finally {
            job.end();
        }
    }

    private Object call(List<Middleware> middlewares, int at) throws Exception {
        return at < middlewares.size()
                ? middlewares.get(at).around(job, () -> call(middlewares, at + 1))
                : registry.handlerOf(job.type()).handle(job);
    }

    private byte[] ack(Object result) {
        try {
            return registry.json.frame("ack", job.id(), result == null ? Map.of() : Map.of("result", result));
        } catch (Throwable unwritable) {
            // Without the message of Jackson, which may quote the result.
            Registry.LOG.error("{} is done without its result: Jackson cannot write a {}", job, result.getClass().getName());
            return registry.json.frame("ack", job.id(), Map.of());
        }
    }

    private byte[] answerTo(Throwable error) {
        Throwable outcome = saved(Failures.outcome(error, job.cancelReason()));
        if (outcome instanceof Release release) { return release(release.getMessage(), release.afterMillis); }
        if (outcome instanceof Cancelled cancelled) {
            // Given back after its timeout, the job would run into the same timeout.
            return cancelled.reason().equals("timeout")
                    ? fail(new Retry("the job took longer than its timeout").code("timeout").type("Timeout"))
                    : release(cancelled.reason(), 0);
        }
        boolean isExplained = (outcome instanceof Retry || outcome instanceof Discard) && outcome.getCause() == null;
        if (!isExplained && job.hasMoreAttempts() && !isForGood(outcome)) {
            Registry.LOG.warn("{} failed", job, outcome);
        } else if (!isExplained) {
            Registry.LOG.error("{} failed", job, outcome);
        }
        return fail(outcome);
    }

    private static boolean isForGood(Throwable outcome) { return outcome instanceof JobFailure own && !own.isRetryable; }

    /** Saves the position of resumable work if the job comes again. */
    private Throwable saved(Throwable outcome) {
        // After an operator's cancel the job may come again, as ojs-init is configured.
        if (isForGood(outcome) || job.cancelReason().orElse("").equals("lost")) { return outcome; }
        try {
            job.flush();
        } catch (CheckpointTooLarge tooLarge) {
            return tooLarge; // without its position the job would begin anew each time
        } catch (RuntimeException unsaved) {
            Registry.LOG.warn("{}: its position is not saved", job, unsaved);
        }
        return outcome;
    }

    private byte[] release(String reason, long afterMillis) {
        Map<String, Object> fields = new HashMap<>();
        if (reason != null) { fields.put("reason", Json.mended(reason)); }
        if (afterMillis > 0) { fields.put("after_ms", afterMillis); }
        return registry.json.frame("release", job.id(), fields);
    }

    private byte[] fail(Throwable outcome) {
        Map<String, Object> error = Failures.describe(outcome); // first, because it may throw
        try {
            registry.failureListener.accept(job, outcome);
        } catch (Throwable mistake) {
            Registry.LOG.error("{}: the failure listener has failed", job, mistake);
        }
        try {
            return registry.json.frame("fail", job.id(), Map.of("error", error));
        } catch (RuntimeException | StackOverflowError unwritable) {
            Registry.LOG.warn("{}: Jackson cannot write the details of its failure, which are left out", job);
            error.remove("details");
            return registry.json.frame("fail", job.id(), Map.of("error", error));
        }
    }
}
