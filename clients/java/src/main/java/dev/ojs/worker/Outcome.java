package dev.ojs.worker;

import java.util.*;

/**
 * What the backend gets for a job that {@link Worker#perform(String, Object...)} has done.
 *
 * @param outcome {@code ack, fail} or {@code release}.
 * @param result of an ack, as Jackson reads it without a type; null if there is none.
 * @param error of a fail: code, type, message, retryable, details, backtrace; empty for others.
 * @param reason of a release.
 * @param checkpoints all checkpoints, the oldest first.
 * @param progress all reports ({@code progress, message, data}), the oldest first.
 * @param heartbeats how many the handler sent.
 */
public record Outcome(String outcome, Object result, Map<String, Object> error, Optional<String> reason,
        List<Object> checkpoints, List<Map<String, Object>> progress, int heartbeats) {
    /**
     * The last checkpoint, for {@link Delivery#checkpoint}.
     *
     * @return null if there is none.
     */
    public Object checkpoint() { return checkpoints.isEmpty() ? null : checkpoints.get(checkpoints.size() - 1); }
}
