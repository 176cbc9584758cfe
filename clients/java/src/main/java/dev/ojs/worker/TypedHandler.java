package dev.ojs.worker;

/**
 * Does the work of one job whose arguments and result have types.
 *
 * @param <A> the arguments, mostly a record.
 * @param <R> the result, mostly a record.
 */
@FunctionalInterface
public interface TypedHandler<A, R> {
    /**
     * @return the result; null for none.
     * @throws Exception as {@link Handler#handle}.
     */
    R handle(A args, Job job) throws Exception;
}
