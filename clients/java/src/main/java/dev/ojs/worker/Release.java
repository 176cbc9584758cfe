package dev.ojs.worker;

/** Thrown by a handler, it gives the job back unprocessed, with no failure recorded where the backend can do that. */
public final class Release extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** @param reason for the log; null for none. */
    public Release(String reason) {
        super(reason);
    }
}
