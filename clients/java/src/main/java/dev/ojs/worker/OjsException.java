package dev.ojs.worker;

/** What this library throws. */
public class OjsException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** @param message what is wrong, and what to do. */
    public OjsException(String message) {
        super(message);
    }

    OjsException(String message, Throwable cause) {
        super(message, cause);
    }

    /** There is no ojs-init to take jobs from. */
    public static final class NotUnderOjsInit extends OjsException {
        private static final long serialVersionUID = 1L;

        NotUnderOjsInit(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** ojs-init has closed the connection. The process must end; nothing reconnects. */
    public static final class ConnectionLost extends OjsException {
        private static final long serialVersionUID = 1L;

        ConnectionLost() {
            super("ojs-init has closed the connection");
        }
    }

    /** ojs-init speaks a version of the protocol that this library does not know. */
    public static final class Protocol extends OjsException {
        private static final long serialVersionUID = 1L;

        Protocol(String message) {
            super(message);
        }
    }

    /** ojs-init has not read for 10 seconds; the frame was not sent. */
    public static final class Stalled extends OjsException {
        private static final long serialVersionUID = 1L;

        Stalled(String message) {
            super(message);
        }
    }
}
