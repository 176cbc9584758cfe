package dev.ojs.worker;

import java.time.Duration;
import java.util.Map;

/**
 * Fails the job; the backend's retry policy decides about the next attempt.
 *
 * <p>{@code throw new Retry("rate limited").after(Duration.ofSeconds(30)).code("x_rate_limit")}
 */
public final class Retry extends JobFailure {
    private static final long serialVersionUID = 1L;

    /**
     * A failure for which another attempt may help.
     *
     * @param message for a person.
     */
    public Retry(String message) { super(message, true); }

    /**
     * Asks for a pause before the next attempt. It goes to the backend as
     * {@code details.retry_after_ms}; the job's retry policy decides whether it is heeded.
     *
     * @param pause not negative.
     * @return this.
     */
    public JobFailure after(Duration pause) {
        return details(Map.of("retry_after_ms", Math.max(0, pause.toMillis())));
    }
}
