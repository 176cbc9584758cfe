package dev.ojs.worker;

/** Ends the process, with its shutdown hooks as far as they are quick. */
final class ProcessEnd {
    private static final long HOOKS_MILLIS = 250;

    private ProcessEnd() {}

    /** Within 0.25 s, whatever hooks and threads do. Returns at once. */
    static void now(int status) {
        try {
            daemon("ojs-exit", () -> exit(status));
        } catch (OutOfMemoryError none) {
            halt(status);
        }
    }

    private static void exit(int status) {
        try {
            daemon("ojs-halt", () -> {
                sleep(HOOKS_MILLIS);
                halt(status);
            });
        } catch (OutOfMemoryError none) {
            halt(status);
        }
        exitWithHooks(status);
    }

    private static void exitWithHooks(int status) {
        try {
            System.exit(status);
        } catch (OutOfMemoryError none) {
            halt(status);
        }
    }

    /** If it has not ended by itself after this time. Returns at once. */
    static void after(long millis, int status) {
        try {
            daemon("ojs-end", () -> {
                sleep(millis);
                exitWithHooks(status);
            });
        } catch (OutOfMemoryError none) {
            halt(status);
        }
    }

    /** Where not even a thread can be started, nothing is left to wait for. */
    private static void halt(int status) {
        Runtime.getRuntime().halt(status);
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
