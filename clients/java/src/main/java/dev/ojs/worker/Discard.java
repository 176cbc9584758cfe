package dev.ojs.worker;

import java.util.Map;

/**
 * Thrown by a handler, it fails the job for good: another attempt would not help.
 */
public final class Discard extends JobFailure {
    private static final long serialVersionUID = 1L;

    /** @param message for a person. */
    public Discard(String message) {
        super(message, false);
    }

    /** A short and stable name for what happened. Your own begin with {@code x_}. */
    public Discard code(String code) {
        set(code, null, null);
        return this;
    }

    /** The class of the error as the backend shall see it. */
    public Discard type(String type) {
        set(null, type, null);
        return this;
    }

    /** Anything more, as JSON. */
    public Discard details(Map<String, ?> details) {
        addDetails(details);
        return this;
    }

    /** What made it fail; its stack is reported. */
    public Discard cause(Throwable cause) {
        set(null, null, cause);
        return this;
    }
}
