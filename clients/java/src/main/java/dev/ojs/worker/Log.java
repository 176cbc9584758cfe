package dev.ojs.worker;

import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * The library's own logger. No call of it throws: a handler of the program's log that fails, or memory that runs out in
 * it, must not cost a job its answer, nor end the thread of the socket.
 */
final class Log {
    /** Kept here: the JDK forgets a logger, and its level, that nobody holds. */
    private final Logger logger;

    Log(String name) {
        logger = Logger.getLogger(name);
    }

    void fine(String message) {
        log(Level.FINE, message);
    }

    void info(String message) {
        log(Level.INFO, message);
    }

    void warning(String message) {
        log(Level.WARNING, message);
    }

    void severe(String message) {
        log(Level.SEVERE, message);
    }

    void log(Level level, String message) {
        log(level, message, null);
    }

    void log(Level level, String message, Throwable thrown) {
        try {
            // With a name of the source: else the JDK would find this class.
            logger.logp(level, logger.getName(), null, message, thrown);
        } catch (Throwable lost) { // an error of the program's log, whatever it is
            return;
        }
    }
}
