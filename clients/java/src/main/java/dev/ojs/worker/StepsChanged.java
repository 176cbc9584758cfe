package dev.ojs.worker;

/**
 * The steps or rows of a job are not those of an earlier attempt. The job fails for good, because
 * nobody knows where to go on.
 */
public final class StepsChanged extends JobFailure {
    private static final long serialVersionUID = 1L;

    StepsChanged(String message) { super(message, false); }
}
