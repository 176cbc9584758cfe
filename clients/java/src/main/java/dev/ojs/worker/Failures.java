package dev.ojs.worker;

import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;

/** What the backend and the log are told about a failure. */
final class Failures {
    static final int MAX_MESSAGE_CHARS = 10_000;
    private static final int MAX_BACKTRACE_FRAMES = 50;
    private static final int MAX_BACKTRACE_CHARS = 10_000;
    private static final int MAX_LINE_CHARS = 1000;
    private static final int MAX_CAUSES = 10;
    private static final String OWN_PACKAGE = Failures.class.getPackageName() + ".";

    private Failures() {}

    /** A string that fits into a frame: whole characters, not too many. */
    static String clean(String text, int limit) {
        if (text == null) {
            return "";
        }
        String cut = text.length() > limit ? text.substring(0, limit - 3) + "..." : text;
        StringBuilder whole = null;
        for (int i = 0; i < cut.length(); i++) {
            char c = cut.charAt(i);
            if (!Character.isSurrogate(c)) {
                continue;
            }
            if (Character.isHighSurrogate(c) && i + 1 < cut.length() && Character.isLowSurrogate(cut.charAt(i + 1))) {
                i++;
            } else {
                whole = whole == null ? new StringBuilder(cut) : whole;
                whole.setCharAt(i, '?');
            }
        }
        return whole == null ? cut : whole.toString();
    }

    /** The same for the log, where a line break of somebody else's must not begin a new line. */
    static String oneLine(Object text) {
        String cleaned = clean(String.valueOf(text), MAX_LINE_CHARS);
        StringBuilder line = new StringBuilder(cleaned.length());
        cleaned.codePoints().forEach(c -> line.appendCodePoint(Character.isISOControl(c) ? '?' : c));
        return line.toString();
    }

    /** Its message; a `getMessage` of the program's own may fail itself. */
    static String message(Throwable error) {
        try {
            return clean(error.getMessage(), MAX_MESSAGE_CHARS);
        } catch (RuntimeException broken) {
            return "(its message cannot be shown: " + name(broken) + ")";
        }
    }

    static String name(Throwable error) {
        String simple = error.getClass().getSimpleName();
        return clean(simple.isEmpty() ? error.getClass().getName() : simple, 200);
    }

    /** Whether the handler ended because its thread was interrupted, or something that it waited for was cancelled. */
    static boolean isGivenUp(Throwable error) {
        for (Throwable cause : causes(error)) {
            if (cause instanceof Cancelled || cause instanceof InterruptedException
                    || cause instanceof ClosedByInterruptException || cause instanceof CancellationException
                    || (cause instanceof InterruptedIOException && !(cause instanceof java.net.SocketTimeoutException))) {
                return true;
            }
        }
        return false;
    }

    /**
     * What the handler itself said about its end: the first Retry, Discard or Release along the causes, since lambdas,
     * futures and frameworks wrap what is thrown through them.
     *
     * @return null if it said nothing.
     */
    static RuntimeException ownWords(Throwable error) {
        for (Throwable cause : causes(error)) {
            if (cause instanceof JobFailure failure) {
                return failure;
            }
            if (cause instanceof Release release) {
                return release;
            }
        }
        return null;
    }

    /** The error and what it was caused by, as far as that is looked at: causes may go round in a circle. */
    static List<Throwable> causes(Throwable error) {
        List<Throwable> causes = new ArrayList<>();
        for (Throwable cause = error; cause != null && causes.size() < MAX_CAUSES; cause = cause.getCause()) {
            causes.add(cause);
        }
        return causes;
    }

    /** The `error` of a `fail`. */
    static Map<String, Object> describe(Throwable error) {
        Map<String, Object> described = new LinkedHashMap<>();
        Throwable origin = error;
        String type = null;
        String message = message(error);
        if (error instanceof JobFailure failure) {
            origin = failure.getCause();
            type = failure.type();
            described.put("code", clean(failure.code(), 200));
            described.put("retryable", failure.isRetryable());
            if (message.isEmpty() && origin != null) {
                message = message(origin);
            }
            addDetails(described, failure);
        } else {
            described.put("code", "handler_error");
            described.put("retryable", true);
        }
        String name = name(origin == null ? error : origin);
        described.put("type", type == null ? name : clean(type, 200));
        described.put("message", message.isEmpty() ? name : message);
        if (origin != null) {
            List<String> backtrace = backtrace(origin);
            if (!backtrace.isEmpty()) {
                described.put("backtrace", backtrace);
            }
        }
        return described;
    }

    private static void addDetails(Map<String, Object> described, JobFailure failure) {
        if (failure.details() == null) {
            return;
        }
        try {
            JsonWriter.write(failure.details(), Json.MAX_DEPTH - 2);
            described.put("details", failure.details());
        } catch (RuntimeException | StackOverflowError unfit) {
            Session.LOG.warning("the details of a " + name(failure) + " are no JSON and are left out");
        }
    }

    /** The calls that led there, innermost first, then those of its causes; as many as an error may have. */
    static List<String> backtrace(Throwable error) {
        List<String> lines = new ArrayList<>();
        int room = MAX_BACKTRACE_CHARS;
        List<Throwable> causes = causes(error);
        for (int i = 0; i < causes.size(); i++) {
            Throwable cause = causes.get(i);
            List<String> part = new ArrayList<>();
            if (i > 0) {
                part.add(clean("Caused by: " + name(cause) + ": " + message(cause), MAX_LINE_CHARS));
            }
            StackTraceElement[] calls = cause.getStackTrace();
            for (int at = 0; at < ownCallAt(calls); at++) {
                part.add(clean(calls[at].toString(), MAX_LINE_CHARS));
            }
            for (String line : part) {
                room -= line.length();
                if (room < 0 || lines.size() == MAX_BACKTRACE_FRAMES) {
                    return lines;
                }
                lines.add(line);
            }
        }
        return lines;
    }

    /** Where our own calls of the handler begin, which help nobody. */
    private static int ownCallAt(StackTraceElement[] calls) {
        int end = calls.length;
        for (int at = calls.length - 1; at >= 0; at--) {
            String called = calls[at].getClassName();
            if (called.startsWith(OWN_PACKAGE)) {
                end = at;
            } else if (!called.startsWith("java.")) {
                break;
            }
        }
        return end;
    }
}
