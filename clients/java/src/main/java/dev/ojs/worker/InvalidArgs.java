package dev.ojs.worker;

/**
 * The arguments of a job do not fit its handler. The job fails for good. The message names the
 * position, what is expected and what kind came, never the value.
 */
public final class InvalidArgs extends JobFailure {
    private static final long serialVersionUID = 1L;

    InvalidArgs(String message) {
        super(message, false);
        code("invalid_args");
    }
}
