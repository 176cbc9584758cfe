package dev.ojs.worker;

/** Fails the job for good, because another attempt would not help. */
public final class Discard extends JobFailure {
    private static final long serialVersionUID = 1L;

    /**
     * A failure for good.
     *
     * @param message for a person.
     */
    public Discard(String message) { super(message, false); }
}
