package dev.ojs.worker;

/** Does the work of one job. */
@FunctionalInterface
public interface Handler {
    /**
     * @return the result, see {@link Json#write}; null for none.
     * @throws Exception {@link Retry}, {@link Discard} and {@link Release} say what becomes of the job; after any other
     *     one it fails and may be tried again.
     */
    Object handle(Job job) throws Exception;
}
