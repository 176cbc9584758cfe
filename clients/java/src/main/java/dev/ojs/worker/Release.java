package dev.ojs.worker;

import java.time.Duration;

/** Thrown by a handler, it gives the job back unprocessed, with no failure recorded where the backend can do that. */
public final class Release extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private Duration after = Duration.ZERO;

    /** @param reason for the log; null for none. */
    public Release(String reason) {
        super(reason);
    }

    /** For how long ojs-init holds the job before it goes back: 30 s at most. */
    public Release after(Duration pause) {
        if (pause.isNegative()) {
            throw new IllegalArgumentException("a pause before the job goes back cannot be negative: " + pause);
        }
        after = pause;
        return this;
    }

    /** In whole milliseconds, where a part of one counts; null for none. */
    Long afterMillis() {
        if (after.isZero()) {
            return null;
        }
        long whole = after.toMillis();
        return Duration.ofMillis(whole).equals(after) ? whole : whole + 1;
    }
}
