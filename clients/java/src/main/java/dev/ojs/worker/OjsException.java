package dev.ojs.worker;

/** There is no ojs-init, the connection to it is closed, or the library is used wrongly. */
public final class OjsException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Without a stack: the message says what to do, and a stack would hide it. */
    OjsException(String message) { super(message, null, false, false); }
}
