package dev.ojs.worker;

import java.time.Duration;

/** Gives the job back unprocessed: no attempt is counted where the backend can do that. */
public final class Release extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** How long ojs-init holds the job before it goes back. */
    long afterMillis;

    /**
     * Gives the job back, because another worker can do it.
     *
     * @param reason for the log; null for none.
     */
    public Release(String reason) { super(reason); }

    /**
     * Sets how long ojs-init holds the job before it goes back.
     *
     * @param pause rounded up to milliseconds; ojs-init holds a job for 30 s at most.
     * @return this.
     */
    public Release after(Duration pause) {
        afterMillis = Math.max(0, pause.plusNanos(999_999).toMillis());
        return this;
    }
}
