package dev.ojs.worker;

import java.time.Duration;
import java.util.Map;

/**
 * Thrown by a handler, it fails the job in your own words; the backend's retry policy decides about the next attempt.
 *
 * <p>{@code throw new Retry("rate limited").after(Duration.ofSeconds(30)).code("x_rate_limit").cause(error)}
 */
public final class Retry extends JobFailure {
    private static final long serialVersionUID = 1L;

    /** @param message for a person. */
    public Retry(String message) {
        super(message, true);
    }

    /**
     * When the next attempt makes sense. It goes to the backend as {@code details.retry_after_ms}; the job's retry policy
     * decides whether it is heeded.
     */
    public Retry after(Duration pause) {
        if (pause.isNegative()) {
            throw new IllegalArgumentException("a pause before the next attempt cannot be negative: " + pause);
        }
        addDetails(Map.of("retry_after_ms", pause.toMillis()));
        return this;
    }

    /** A short and stable name for what happened. Your own begin with {@code x_}. */
    public Retry code(String code) {
        set(code, null, null);
        return this;
    }

    /** The class of the error as the backend shall see it. */
    public Retry type(String type) {
        set(null, type, null);
        return this;
    }

    /** Anything more, as JSON. */
    public Retry details(Map<String, ?> details) {
        addDetails(details);
        return this;
    }

    /** What made it fail; its stack is reported. */
    public Retry cause(Throwable cause) {
        set(null, null, cause);
        return this;
    }
}
