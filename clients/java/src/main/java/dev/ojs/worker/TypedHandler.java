package dev.ojs.worker;

/**
 * Does the work of one job whose arguments and result have types.
 *
 * @param <A> the type of the arguments, mostly a record.
 * @param <R> the type of the result.
 */
public interface TypedHandler<A, R> {
    /**
     * Does the work.
     *
     * @param args the arguments of the job.
     * @param job the job.
     * @return the result; null for none.
     * @throws Exception as {@link Handler#handle}.
     */
    R handle(A args, Job job) throws Exception;
}
