package dev.ojs.worker;

/** Ends the process, with its shutdown hooks as far as they are quick. */
final class ProcessEnd {
    private static final long HOOKS_MILLIS = 250;

    private ProcessEnd() {}

    /** Within 0.25 s, whatever hooks and threads do. Returns at once. */
    static void now(int status) {
        orHalt(status, () -> daemon("ojs-exit", () -> {
            orHalt(status, () -> daemon("ojs-halt", () -> {
                sleep(HOOKS_MILLIS);
                Runtime.getRuntime().halt(status);
            }));
            System.exit(status);
        }));
    }

    /** If it has not ended by itself after this time. Returns at once. */
    static void after(long millis, int status) {
        orHalt(status, () -> daemon("ojs-end", () -> {
            sleep(millis);
            System.exit(status);
        }));
    }

    /** Where not even a thread can be started, nothing is left to wait for. */
    private static void orHalt(int status, Runnable start) {
        try {
            start.run();
        } catch (OutOfMemoryError none) {
            Runtime.getRuntime().halt(status);
        }
    }

    static Thread daemon(String name, Runnable task) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException nobodyDoes) {
            Thread.currentThread().interrupt();
        }
    }
}
