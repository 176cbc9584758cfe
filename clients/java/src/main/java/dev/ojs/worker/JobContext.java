package dev.ojs.worker;

/** Which job a thread works for. */
final class JobContext {
    private static final ThreadLocal<Job> CURRENT = new ThreadLocal<>();

    private JobContext() {}

    /** The job whose handler runs on this thread; null if none. */
    static Job current() {
        return CURRENT.get();
    }

    static void enter(Job job) {
        CURRENT.set(job);
    }

    static void leave() {
        CURRENT.remove();
    }
}
