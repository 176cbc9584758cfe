package dev.ojs.worker;

import java.io.IOException;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiConsumer;

/**
 * Takes jobs from ojs-init and runs a handler for each.
 *
 * <pre>{@code
 * Worker worker = new Worker();
 * worker.job("email.send", job -> Map.of("sent_to", job.arg(0, String.class)));
 * worker.run();
 * }</pre>
 *
 * <p>Start it with {@code ojs-init -- java -jar worker.jar}. The thread of {@link #run} reads the
 * socket and waits for nothing else; handlers run on threads of their own.
 */
public final class Worker {
    /** Time for the cleanup of handlers when ojs-init has closed the connection. */
    private static final long CLEANUP_MILLIS = 250;
    /** Time for the rest of `main`; then the process ends although a thread may keep it alive. */
    private static final long LINGER_MILLIS = 1000;

    private final Registry registry;
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private volatile boolean isStopped;
    private volatile Session session;

    /** A worker with the default {@link Options}. */
    public Worker() { this(new Options()); }

    /**
     * A worker with options.
     *
     * @param options must not be changed any more.
     */
    public Worker(Options options) { registry = new Registry(options); }

    // Handlers

    /**
     * Registers the handler of a job type.
     *
     * @param type 1 to 1024 bytes; {@code "*"} is for every type that has no handler.
     * @param handler does the work.
     * @return this.
     * @throws IllegalArgumentException if the type has a handler already.
     */
    public Worker job(String type, Handler handler) {
        if (registry.handlers.putIfAbsent(type, handler) != null) {
            throw new IllegalArgumentException("there are two handlers for \"" + type + "\"");
        }
        return this;
    }

    /**
     * Registers a handler whose arguments have a type. A record takes the arguments in the order of
     * its components, or by name from one argument, an object; only an {@code Optional} may be
     * missing. A collection takes all arguments, and any other type the one argument. Arguments
     * that do not fit fail the job with {@link InvalidArgs}.
     *
     * @param <A> the type of the arguments.
     * @param type of the job.
     * @param args the type of the arguments, mostly a record.
     * @param handler does the work.
     * @return this.
     * @throws IllegalArgumentException as {@link #job(String, Handler)}, or if Jackson can never
     *     read the type.
     */
    public <A> Worker job(String type, Class<A> args, TypedHandler<A, ?> handler) {
        Arguments<A> arguments = new Arguments<>(registry.json.mapper, args);
        return job(type, job -> handler.handle(arguments.read(job.argsNode()), job));
    }

    /**
     * Registers a handler whose arguments and result have types.
     *
     * @param <A> the type of the arguments.
     * @param <R> the type of the result.
     * @param type of the job.
     * @param args the type of the arguments, as {@link #job(String, Class, TypedHandler)}.
     * @param result the type of the result; {@code Void} for none.
     * @param handler does the work.
     * @return this.
     * @throws IllegalArgumentException as {@link #job(String, Handler)}, or if Jackson can never
     *     read or write the types.
     */
    public <A, R> Worker job(String type, Class<A> args, Class<R> result, TypedHandler<A, R> handler) {
        Arguments.requireWritable(registry.json.mapper, result);
        return job(type, args, handler);
    }

    /**
     * Adds a middleware around every handler. The first one is the outermost.
     *
     * @param middleware runs around every handler.
     * @return this.
     */
    public Worker middleware(Middleware middleware) {
        registry.middlewares.add(middleware);
        return this;
    }

    /**
     * Sets what sees each failure of a handler exactly once, such as an error tracker: exceptions,
     * {@link InvalidArgs}, {@link Retry}, {@link Discard}, timeouts. It does not see jobs without a
     * handler, jobs that are given back, and results that Jackson cannot write.
     *
     * @param listener runs on the thread of the handler, before the answer is sent.
     * @return this.
     */
    public Worker onFailure(BiConsumer<Job, Throwable> listener) {
        registry.failureListener = listener;
        return this;
    }

    // Running

    /**
     * Takes jobs until ojs-init, a signal or {@link #stop} ends that and all held jobs are
     * answered. Let the program end then. A worker runs once. An interrupt of the calling thread is
     * a {@link #stop}.
     *
     * @throws OjsException if {@code OJS_SOCKET} is missing or nobody listens there, if ojs-init
     *     closes the connection while jobs are held, or if it speaks another version of the
     *     protocol.
     */
    public void run() {
        String path = socketPath();
        if (registry.handlers.isEmpty()) { throw new OjsException("no handler: add one with worker.job(type, handler)"); }
        if (session != null) { throw new OjsException("a worker runs once: when it has ended, let the process end"); }
        // Before the connection: from then on SIGTERM may come at any time.
        if (registry.options.handlesSignals && !Signals.handle(this::onSignal, "TERM", "INT")) {
            Registry.LOG.warn("this JVM lacks the module jdk.unsupported: SIGTERM ends it at once");
        }
        SocketLink link = connect(path);
        session = new Session(registry, link);
        if (isStopped) { session.stop(); }
        try {
            serve(link);
        } catch (RuntimeException | Error failed) {
            exitLater(1);
            throw failed;
        } finally {
            ended.complete(null);
        }
    }

    private String socketPath() {
        String path = registry.options.socketPath;
        path = path == null ? System.getenv("OJS_SOCKET") : path;
        if (path != null && !path.isEmpty()) { return path; }
        String mode = System.getenv("OJS_MODE");
        if (mode != null && List.of("gateway", "exec", "none").contains(mode)) {
            throw new OjsException("OJS_SOCKET is not set, because ojs-init runs in mode " + mode
                    + ": leave OJS_MODE out, or set it to socket");
        }
        throw new OjsException("OJS_SOCKET is not set: this is a worker for ojs-init, which starts it"
                + " and gives it jobs. Run it as: ojs-init -- java -jar worker.jar");
    }

    private static SocketLink connect(String path) {
        try {
            return new SocketLink(path);
        } catch (IOException | RuntimeException refused) {
            throw new OjsException("cannot connect to ojs-init at " + path + ": " + refused.getMessage());
        }
    }

    /** The connection stays open afterwards, until the process ends. */
    private void serve(SocketLink link) {
        while (!(session.isOver() && link.isFlushed())) {
            if (!link.round(session::onLine)) {
                onClosed();
                return;
            }
            if (Thread.interrupted()) { stop(); }
        }
        session.flushLog();
    }

    private void onClosed() {
        int held = session.heldJobs();
        if (held == 0) {
            Registry.LOG.info("ojs-init has closed the connection; no job is held");
            exitLater(0);
            return;
        }
        session.cancelAll("lost");
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(CLEANUP_MILLIS);
        while (session.heldJobs() > 0 && System.nanoTime() < end) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
        }
        throw new OjsException("ojs-init has closed the connection; jobs that are lost: " + held);
    }

    private void onSignal() { stop(); ended.thenRun(() -> exitLater(0)); }

    /** Ends the process if a thread of the program keeps it alive. */
    private void exitLater(int status) {
        if (registry.options.handlesSignals) {
            CompletableFuture.delayedExecutor(LINGER_MILLIS, TimeUnit.MILLISECONDS).execute(() -> System.exit(status));
        }
    }

    /**
     * Takes no more jobs, finishes those that are held, then lets {@link #run} return. From any
     * thread.
     */
    public void stop() {
        isStopped = true;
        if (session != null) { session.stop(); }
    }

    // Tests of handlers

    /**
     * Does one job in this process, without ojs-init, over the path that serves the socket:
     * arguments and result go through JSON, middleware runs, failures become what the backend gets.
     *
     * @param type of the job.
     * @param args its arguments.
     * @return what the backend gets.
     * @throws OjsException if the handler does not end within 60 s.
     */
    public Outcome perform(String type, Object... args) { return perform(new Delivery(), type, args); }

    /**
     * Does one job in this process under conditions: a timeout, a shutdown, a cancel, a checkpoint.
     *
     * @param delivery the conditions.
     * @param type of the job.
     * @param args its arguments.
     * @return what the backend gets.
     * @throws IllegalArgumentException if Jackson cannot write the arguments.
     * @throws OjsException if the handler does not end within {@link Delivery#patience}.
     */
    public Outcome perform(Delivery delivery, String type, Object... args) {
        return new Performance(registry, delivery).run(type, Arrays.asList(args));
    }
}
