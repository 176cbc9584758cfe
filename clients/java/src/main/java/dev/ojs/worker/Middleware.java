package dev.ojs.worker;

/** Something around every handler: tracing, a transaction, a check. */
@FunctionalInterface
public interface Middleware {
    /**
     * Calls {@code next.run()} once, or not at all, and returns the result: what that returned, or another.
     *
     * @throws Exception what it throws counts as if the handler had thrown it.
     */
    Object around(Job job, Next next) throws Exception;

    /** What is inside of a middleware: the next one, and the handler in the end. */
    @FunctionalInterface
    interface Next {
        /**
         * @return the handler's result.
         * @throws Exception what the handler threw.
         */
        Object run() throws Exception;
    }
}
