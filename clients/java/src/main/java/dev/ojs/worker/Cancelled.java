package dev.ojs.worker;

/** What {@link Job#throwIfCancelled} throws. The job is answered as the reason of its cancel asks for. */
public final class Cancelled extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Cancelled(String reason) {
        super(reason);
    }
}
