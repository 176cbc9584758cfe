package dev.ojs.worker;

import java.util.LinkedHashMap;
import java.util.Map;

/** A failure in the program's own words: {@link Retry} or {@link Discard}. */
public abstract class JobFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final boolean isRetryable;
    private String code = "handler_error";
    private String type;
    private transient Map<String, Object> details;

    JobFailure(String message, boolean isRetryable) {
        super(message);
        this.isRetryable = isRetryable;
    }

    /** Whether another attempt may help. */
    public final boolean isRetryable() {
        return isRetryable;
    }

    /** A short and stable name for what happened; {@code handler_error} unless it was set. */
    public final String code() {
        return code;
    }

    /** The class of the error as the backend sees it; null unless it was set: then that of the cause, or of this. */
    public final String type() {
        return type;
    }

    /** Anything more; null if there is nothing. */
    public final Map<String, Object> details() {
        return details;
    }

    final void set(String newCode, String newType, Throwable cause) {
        code = newCode == null ? code : newCode;
        type = newType == null ? type : newType;
        if (cause != null) {
            initCause(cause);
        }
    }

    final void addDetails(Map<String, ?> more) {
        details = details == null ? new LinkedHashMap<>() : details;
        details.putAll(more);
    }
}
