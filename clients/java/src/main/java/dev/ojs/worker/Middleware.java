package dev.ojs.worker;

/** Runs around every handler: tracing, a transaction, a check. */
public interface Middleware {
    /**
     * Calls {@code next.run()} once, or not at all.
     *
     * @param job the job.
     * @param next the next middleware or, inside the last one, the handler.
     * @return the result of the job: that of {@code next}, or another one.
     * @throws Exception counts as if the handler had thrown it.
     */
    Object around(Job job, Next next) throws Exception;

    /** The next middleware or, inside the last one, the handler. */
        interface Next {
        /**
         * Runs it.
         *
         * @return the result of the handler.
         * @throws Exception what the handler threw.
         */
        Object run() throws Exception;
    }
}
