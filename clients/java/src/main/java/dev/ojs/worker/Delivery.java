package dev.ojs.worker;

import java.time.Duration;
import java.util.*;

/** How {@link Worker#perform(Delivery, String, Object...)} delivers a job to its handler. */
public final class Delivery {
    /** A frame that ojs-init sends after the handler has run for a time. */
    record Event(Duration after, String type, Map<String, Object> fields) {}

    final Map<String, Object> envelope = new LinkedHashMap<>();
    final List<Event> events = new ArrayList<>();
    Object checkpoint;
    Duration patience = Duration.ofSeconds(60);

    /** A first attempt, without a timeout, while nothing shuts down. */
    public Delivery() {}

    /**
     * Sets the number of the attempt.
     *
     * @param attempt the default is 1.
     * @return this.
     */
    public Delivery attempt(int attempt) { return field("attempt", attempt); }

    /**
     * Sets any other field of the envelope: {@code id, queue, meta, max_attempts}.
     *
     * @param name of the field.
     * @param value anything that Jackson can write.
     * @return this.
     */
    public Delivery field(String name, Object value) { envelope.put(name, value); return this; }

    /**
     * Sets what an earlier attempt has saved.
     *
     * @param state {@link Outcome#checkpoint} of that attempt, or a state of the handler's own.
     * @return this.
     */
    public Delivery checkpoint(Object state) { checkpoint = state; return this; }

    /**
     * Sets the timeout of the job, after which it is cancelled (timeout).
     *
     * @param time not negative.
     * @return this.
     */
    public Delivery timeout(Duration time) { return cancel(time, "timeout").field("timeout_ms", time.toMillis()); }

    /**
     * Lets the worker be shut down from the start.
     *
     * @param remaining the time that is left; then the job is cancelled (shutdown).
     * @return this.
     */
    public Delivery stopping(Duration remaining) { return stopping(Duration.ZERO, remaining); }

    /**
     * Lets the worker be shut down while the handler runs.
     *
     * @param after the time until then.
     * @param remaining the time that is left then.
     * @return this.
     */
    public Delivery stopping(Duration after, Duration remaining) {
        events.add(new Event(after, "lifecycle",
                Map.of("state", "terminate", "reason", "sigterm", "remaining_ms", remaining.toMillis())));
        return cancel(after.plus(remaining), "shutdown");
    }

    /**
     * Cancels the job while the handler runs.
     *
     * @param after the time until then.
     * @param reason {@code shutdown, timeout, cancelled} or {@code lost}.
     * @return this.
     */
    public Delivery cancel(Duration after, String reason) {
        events.add(new Event(after, "cancel", Map.of("reason", reason, "grace_ms", 1000)));
        return this;
    }

    /**
     * Sets how long to wait for the end of the handler.
     *
     * @param time the default is 60 s.
     * @return this.
     */
    public Delivery patience(Duration time) { patience = time; return this; }
}
