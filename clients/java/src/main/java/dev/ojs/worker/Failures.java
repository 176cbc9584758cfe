package dev.ojs.worker;

import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.nio.channels.ClosedByInterruptException;
import java.util.*;
import java.util.concurrent.CancellationException;

/** What the errors of handlers mean, and how they are reported. ojs-init cuts what is too long. */
final class Failures {
    private static final int MAX_CAUSES = 10;
    /** Below these calls a stack has only calls of this library. */
    private static final Set<String> CALLERS = Set.of("dev.ojs.worker.Execution", "dev.ojs.worker.Worker");

    /**
     * The outcome that the handler chose itself: the first {@link JobFailure}, {@link Release} or
     * {@link Cancelled} along the causes, because futures and frameworks wrap exceptions. Or the
     * end because of a cancel, which comes from an interrupt. Else the error itself.
     */
    static Throwable outcome(Throwable error, Optional<String> cancelReason) {
        boolean isInterrupted = false;
        for (Throwable cause : causes(error)) {
            if (cause instanceof JobFailure || cause instanceof Release || cause instanceof Cancelled) { return cause; }
            isInterrupted |= cause instanceof InterruptedException || cause instanceof ClosedByInterruptException
                    || cause instanceof CancellationException
                    || (cause instanceof InterruptedIOException && !(cause instanceof SocketTimeoutException));
        }
        return isInterrupted && cancelReason.isPresent() ? new Cancelled(cancelReason.get()) : error;
    }

    /** The error and its causes, the first ten, because causes may form a circle. */
    private static List<Throwable> causes(Throwable error) {
        List<Throwable> causes = new ArrayList<>();
        for (Throwable cause = error; cause != null && causes.size() < MAX_CAUSES; cause = cause.getCause()) {
            causes.add(cause);
        }
        return causes;
    }

    /** The `error` of a `fail`: first what decides, because ojs-init reads the beginning of a line that is too long. */
    static Map<String, Object> describe(Throwable error) {
        JobFailure failure = error instanceof JobFailure own ? own : new Retry(null).cause(error);
        Throwable origin = failure.getCause() == null ? failure : failure.getCause();
        String message = failure.getMessage() == null ? origin.getMessage() : failure.getMessage();
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("retryable", failure.isRetryable);
        described.put("code", Json.mended(failure.code));
        described.put("type", failure.type == null ? name(origin) : Json.mended(failure.type));
        described.put("message", Json.mended(message == null ? name(origin) : message));
        if (origin != failure) { described.put("backtrace", backtrace(origin)); }
        if (!failure.details.isEmpty()) { described.put("details", failure.details); }
        return described;
    }

    private static String name(Throwable error) {
        String simple = error.getClass().getSimpleName();
        return simple.isEmpty() ? error.getClass().getName() : simple;
    }

    /** The calls that led to the error, innermost first, then those of its causes. */
    private static List<String> backtrace(Throwable error) {
        List<String> lines = new ArrayList<>();
        for (Throwable cause : causes(error)) {
            if (cause != error) { lines.add(Json.mended("Caused by: " + name(cause) + ": " + cause.getMessage())); }
            Arrays.stream(cause.getStackTrace()).takeWhile(call -> !CALLERS.contains(call.getClassName()))
                    .forEach(call -> lines.add(call.toString()));
        }
        return lines;
    }
}
