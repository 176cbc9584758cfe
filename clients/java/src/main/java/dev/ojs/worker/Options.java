package dev.ojs.worker;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.concurrent.Executor;

/** How a {@link Worker} works. */
public final class Options {
    int concurrency;
    String socketPath;
    boolean handlesSignals = true;
    boolean interrupts = true;
    Executor executor;
    ObjectMapper mapper;

    /** The defaults: as many jobs at once as ojs-init allows, on a pool of daemon threads. */
    public Options() {}

    /**
     * Sets the most jobs at once. The default, and the upper limit, is what ojs-init allows
     * ({@code OJS_CONCURRENCY}).
     *
     * @param jobs from 1 to 10000.
     * @return this.
     * @throws IllegalArgumentException if the number is out of range.
     */
    public Options concurrency(int jobs) {
        if (jobs < 1 || jobs > 10_000) { throw new IllegalArgumentException("concurrency is from 1 to 10000, not " + jobs); }
        concurrency = jobs;
        return this;
    }

    /**
     * Sets the mapper that reads arguments and checkpoints and writes results. The default has all
     * modules of the class path, is strict about types and ignores unknown properties.
     *
     * @param mapper a mapper of JSON; it must not be changed any more.
     * @return this.
     */
    public Options mapper(ObjectMapper mapper) { this.mapper = mapper; return this; }

    /**
     * Sets where ojs-init listens, for tests.
     *
     * @param path of a Unix socket; the default is {@code $OJS_SOCKET}.
     * @return this.
     */
    public Options socketPath(String path) { socketPath = path; return this; }

    /**
     * Sets whether {@link Worker#run} handles SIGTERM and SIGINT, and ends a process that another
     * thread keeps alive.
     *
     * @param yes the default is true; false leaves both to the program.
     * @return this.
     */
    public Options handleSignals(boolean yes) { handlesSignals = yes; return this; }

    /**
     * Sets whether a cancel interrupts the thread of the handler. An interrupt closes a
     * {@code FileChannel} or {@code SocketChannel} that the thread uses, so turn it off where
     * handlers share channels.
     *
     * @param yes the default is true.
     * @return this.
     */
    public Options interrupt(boolean yes) { interrupts = yes; return this; }

    /**
     * Sets where handlers run, such as {@code Executors.newVirtualThreadPerTaskExecutor()}.
     *
     * @param handlers has a thread for each job at once, best a daemon thread.
     * @return this.
     */
    public Options executor(Executor handlers) { executor = handlers; return this; }
}
