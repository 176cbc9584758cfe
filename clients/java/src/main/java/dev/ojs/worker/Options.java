package dev.ojs.worker;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Executor;

/** How a {@link Worker} works. */
public final class Options {
    static final int MAX_CONCURRENCY = 10_000;
    private static final Duration LONGEST_GRACE = Duration.ofDays(1);

    int concurrency;
    String socketPath;
    boolean handlesSignals = true;
    boolean interrupts = true;
    Duration stopGrace = Duration.ofMillis(500);
    Executor executor;

    /** The defaults: as many jobs at once as ojs-init says, each on a thread of its own. */
    public Options() {}

    /**
     * Most jobs at once, from 1 to 10000. Without it as many as ojs-init allows ({@code OJS_CONCURRENCY}); a larger
     * number than that does nothing.
     */
    public Options concurrency(int jobs) {
        if (jobs < 1 || jobs > MAX_CONCURRENCY) {
            throw new IllegalArgumentException(
                    "concurrency is a whole number from 1 to " + MAX_CONCURRENCY + ", not " + jobs);
        }
        concurrency = jobs;
        return this;
    }

    /** Where ojs-init listens, for tests; the default is {@code $OJS_SOCKET}. */
    public Options socketPath(String path) {
        socketPath = Objects.requireNonNull(path, "the path of the socket");
        return this;
    }

    /**
     * Whether SIGTERM and SIGINT are taken over by {@link Worker#run}, and the process is ended where the protocol asks
     * for that although something hangs. Default true. With false both are left to you.
     */
    public Options handleSignals(boolean yes) {
        handlesSignals = yes;
        return this;
    }

    /**
     * Whether the thread of a handler is interrupted when its job is cancelled. Default true. False where handlers use
     * files or sockets together through channels: an interrupt closes those.
     */
    public Options interrupt(boolean yes) {
        interrupts = yes;
        return this;
    }

    /** How long handlers get to end after SIGTERM, at most a day; default 0.5 s. ojs-init kills soon after that. */
    public Options stopGrace(Duration grace) {
        if (grace.isNegative() || grace.compareTo(LONGEST_GRACE) > 0) {
            throw new IllegalArgumentException("the grace after SIGTERM is from 0 to a day, not " + grace);
        }
        stopGrace = grace;
        return this;
    }

    /**
     * Where handlers run, such as {@code Executors.newVirtualThreadPerTaskExecutor()}. It must run as many tasks at once
     * as there are jobs, on threads that do not keep the process alive. Default: a new daemon thread for each job, so
     * that no {@link ThreadLocal} of one job is seen by the next.
     */
    public Options executor(Executor handlers) {
        executor = Objects.requireNonNull(handlers, "the executor of the handlers");
        return this;
    }
}
