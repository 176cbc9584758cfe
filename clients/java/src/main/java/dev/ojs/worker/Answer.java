package dev.ojs.worker;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.logging.Level;

/** The one answer that a job gets. */
record Answer(String kind, byte[] frame) {
    private static final int SHORT_MESSAGE_CHARS = 200;
    /** Those of failures that the library makes itself. */
    private static final Set<String> OWN_TYPES = Set.of("InvalidResult", "InvalidArgs");

    /** What a handler's end means for its job: see {@link Job#endOf}. */
    static Answer of(Job job, Object result, Throwable error, int maxFrame) {
        Throwable end = error;
        if (end == null) {
            String text;
            try {
                text = result == null ? null : JsonWriter.write(result, Json.MAX_VALUE_DEPTH);
            } catch (RuntimeException | StackOverflowError unfit) {
                text = null;
                end = new Discard("the handler's result is not JSON: " + Failures.message(unfit)).type("InvalidResult");
            }
            if (end == null) {
                return ack(job, text, maxFrame);
            }
        }
        if (job.cancelReason().isPresent() && !(end instanceof JobFailure) && Failures.isGivenUp(end)) {
            String reason = job.cancelReason().get();
            end = reason.equals("timeout")
                    ? new Retry("the job took longer than it may").code("timeout").type("Timeout")
                    : new Release(reason);
        }
        if (end instanceof Release release) {
            String reason = release.getMessage() == null ? null : Failures.clean(release.getMessage(), 1000);
            return new Answer("release", Frames.frame("release", job.id(), "reason", reason,
                    "after_ms", release.afterMillis()));
        }
        if (!isInOwnWords(end)) {
            boolean isRetryable = !(end instanceof JobFailure failure) || failure.isRetryable();
            Session.LOG.log(isRetryable && job.hasMoreAttempts() ? Level.WARNING : Level.SEVERE,
                    "job " + Failures.oneLine(job.id()) + " (" + Failures.oneLine(job.type()) + ") failed", end);
        }
        return fail(job, end, maxFrame);
    }

    /** Whether the handler itself said what is wrong: then there is nothing to find out. */
    private static boolean isInOwnWords(Throwable end) {
        boolean isPlain = end instanceof Retry || end instanceof Discard;
        return isPlain && end.getCause() == null && !OWN_TYPES.contains(String.valueOf(((JobFailure) end).type()));
    }

    /** For when not even the failure can be described. */
    static Answer broken(Job job) {
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("code", "handler_error");
        error.put("message", "the answer cannot be made");
        error.put("retryable", true);
        return new Answer("fail", Frames.frame("fail", job.id(), "error", error));
    }

    private static Answer ack(Job job, String result, int maxFrame) {
        if (result != null) {
            byte[] frame = Frames.withRaw("ack", job.id(), ",\"result\":" + result);
            if (frame.length - 1 <= maxFrame) {
                return new Answer("ack", frame);
            }
            // As ojs-init does when the backend refuses a result: the work is done, it must not be done again.
            Session.LOG.severe("job " + Failures.oneLine(job.id()) + ": its result is dropped: " + (frame.length - 1)
                    + " bytes, over " + maxFrame);
        }
        return new Answer("ack", Frames.frame("ack", job.id()));
    }

    private static Answer fail(Job job, Throwable end, int maxFrame) {
        Map<String, Object> error = Failures.describe(end);
        byte[] frame = Frames.frame("fail", job.id(), "error", error);
        if (frame.length - 1 > maxFrame) {
            Session.LOG.severe("job " + Failures.oneLine(job.id()) + ": details and backtrace are dropped: the report has "
                    + (frame.length - 1) + " bytes");
            error.remove("details");
            error.remove("backtrace");
            error.put("message", Failures.clean((String) error.get("message"), SHORT_MESSAGE_CHARS));
            frame = Frames.frame("fail", job.id(), "error", error);
        }
        return new Answer("fail", frame);
    }

    @Override
    public String toString() {
        return new String(frame, StandardCharsets.UTF_8);
    }
}
