package dev.ojs.worker;

/**
 * The steps, positions and state of a resumable job have more than 64 KiB of JSON, or a checkpoint
 * has more than {@code worker.max_frame}. The job fails for good.
 */
public final class CheckpointTooLarge extends JobFailure {
    private static final long serialVersionUID = 1L;

    CheckpointTooLarge(String message) { super(message, false); }
}
