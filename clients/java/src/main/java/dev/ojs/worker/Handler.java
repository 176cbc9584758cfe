package dev.ojs.worker;

/** Does the work of one job. */
public interface Handler {
    /**
     * Does the work.
     *
     * @param job the job.
     * @return the result, anything that Jackson can write; null for none.
     * @throws Exception {@link Retry}, {@link Discard} and {@link Release} decide the job's
     *     outcome. Any other exception fails the job, and the backend may retry it.
     */
    Object handle(Job job) throws Exception;
}
