package dev.ojs.worker;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/** How {@link Worker#perform(Delivery, String, Object...)} delivers a job to its handler. */
public final class Delivery {
    final Map<String, Object> envelope = new LinkedHashMap<>();
    Object checkpoint;
    Duration timeout;
    Duration stoppingAfter;
    Duration stopRemaining;
    Duration cancelAfter;
    String cancelReason;
    Duration patience = Duration.ofSeconds(60);

    /** A first attempt, without a timeout, while nothing shuts down. */
    public Delivery() {}

    private static Duration positive(Duration time, String what) {
        if (Objects.requireNonNull(time, what).isNegative()) {
            throw new IllegalArgumentException(what + " cannot be negative: " + time);
        }
        return time;
    }

    /** The job's id; default {@code test-job}. */
    public Delivery id(String id) {
        return field("id", Objects.requireNonNull(id, "id"));
    }

    /** Its queue; default {@code default}. */
    public Delivery queue(String queue) {
        return field("queue", Objects.requireNonNull(queue, "queue"));
    }

    /** Which attempt it is; default 1. */
    public Delivery attempt(int attempt) {
        return field("attempt", attempt);
    }

    /** What travels with it: trace context, tenant, log_level. */
    public Delivery meta(Map<String, ?> meta) {
        return field("meta", Objects.requireNonNull(meta, "meta"));
    }

    /** Any other field of the envelope. */
    public Delivery field(String name, Object value) {
        envelope.put(name, value);
        return this;
    }

    /** What an earlier attempt has saved: {@link Outcome#checkpoint} of that, or a state of the handler's own. */
    public Delivery checkpoint(Object state) {
        checkpoint = state;
        return this;
    }

    /** The job's timeout: when it is over the job is cancelled (timeout), as ojs-init does. */
    public Delivery timeout(Duration time) {
        timeout = positive(time, "a timeout");
        return field("timeout_ms", time.toMillis());
    }

    /** The worker is being shut down from the start, with this time left; then the job is cancelled (shutdown). */
    public Delivery stopping(Duration remaining) {
        return stopping(Duration.ZERO, remaining);
    }

    /** The same after the handler has run for this time. */
    public Delivery stopping(Duration after, Duration remaining) {
        stoppingAfter = positive(after, "the time before a shutdown");
        stopRemaining = positive(remaining, "the time that is left of a shutdown");
        return this;
    }

    /** The job is cancelled after this time: {@code shutdown}, {@code timeout}, {@code cancelled} or {@code lost}. */
    public Delivery cancel(Duration after, String reason) {
        cancelAfter = positive(after, "the time before a cancel");
        cancelReason = Objects.requireNonNull(reason, "the reason of a cancel");
        return this;
    }

    /** How long to wait for the handler's end; default 60 s. */
    public Delivery patience(Duration time) {
        patience = positive(time, "the patience");
        return this;
    }
}
