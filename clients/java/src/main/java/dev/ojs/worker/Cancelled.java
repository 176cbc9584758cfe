package dev.ojs.worker;

/**
 * Ends a handler whose job was cancelled, or whose resumable work goes on in a later attempt.
 *
 * <p>This is an {@link Error}, so that {@code catch (Exception e)} does not stop it. Do not catch
 * it, or throw it again: a handler that catches it and returns has acknowledged its job.
 */
public final class Cancelled extends Error {
    private static final long serialVersionUID = 1L;

    Cancelled(String reason) { super(reason); }

    /**
     * Why the handler ends.
     *
     * @return the reason of the cancel, as {@link Job#cancelReason}; or
     *     {@code resumes at its checkpoint}.
     */
    public String reason() { return getMessage(); }
}
