package dev.ojs.worker;

import java.util.*;

/** A failure that the handler or this library describes itself. */
public abstract class JobFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Whether another attempt may help. */
    final boolean isRetryable;
    /** A short and stable name. */
    String code = "handler_error";
    /** The class of the error as the backend sees it; null for that of the cause, or of this. */
    String type;
    final transient Map<String, Object> details = new LinkedHashMap<>();

    JobFailure(String message, boolean isRetryable) {
        super(message);
        this.isRetryable = isRetryable;
    }

    /**
     * Sets a short and stable name of the failure.
     *
     * @param name begins with {@code x_}; the default is {@code handler_error}.
     * @return this.
     */
    public JobFailure code(String name) { code = name; return this; }

    /**
     * Sets the class of the error as the backend sees it.
     *
     * @param name such as {@code MailboxFull}; the default is the class of the cause, or of this.
     * @return this.
     */
    public JobFailure type(String name) { type = name; return this; }

    /**
     * Adds details.
     *
     * @param more values that Jackson can write.
     * @return this.
     */
    public JobFailure details(Map<String, ?> more) { details.putAll(more); return this; }

    /**
     * Sets the cause, whose stack is reported and logged.
     *
     * @param cause what made the job fail.
     * @return this.
     */
    public JobFailure cause(Throwable cause) { initCause(cause); return this; }
}
