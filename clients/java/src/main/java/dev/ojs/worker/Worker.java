package dev.ojs.worker;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;

/**
 * Takes jobs from ojs-init and runs a function of yours for each.
 *
 * <pre>{@code
 * Worker worker = new Worker();
 * worker.job("email.send", job -> Map.of("sent_to", job.args().get(0)));
 * worker.run();
 * }</pre>
 *
 * <p>Start it with {@code ojs-init -- java -jar worker.jar}. One thread reads and writes the socket and never waits for
 * anything else, so a ping is answered and a cancel noticed whatever the handlers do; handlers run on threads of their own.
 */
public final class Worker {
    static final String ENV_SOCKET = "OJS_SOCKET";
    private static final String ENV_MODE = "OJS_MODE";
    /** The modes of ojs-init in which it gives no socket to the worker. */
    private static final Set<String> MODES_WITHOUT_SOCKET = Set.of("gateway", "exec", "none");
    private static final int MAX_TYPES = 10_000;
    private static final int MAX_NAME_BYTES = 1024;
    private static final String EVERY_OTHER = "*";

    private final Options options;
    private final Map<String, Handler> handlers = new LinkedHashMap<>();
    private final List<Middleware> middlewares = new CopyOnWriteArrayList<>();
    private volatile Runner runner;
    private volatile boolean isStopAsked;

    /** A worker with the default {@link Options}. */
    public Worker() {
        this(new Options());
    }

    /** A worker with these options; they must not be changed any more. */
    public Worker(Options options) {
        this.options = Objects.requireNonNull(options, "options");
    }

    // What it does

    /**
     * Registers the handler of a job type; {@code "*"} is for every type that has none.
     *
     * @return this worker.
     * @throws IllegalArgumentException if the type has a handler already, or is no name of 1 to 1024 bytes.
     */
    public Worker job(String type, Handler handler) {
        Objects.requireNonNull(handler, "handler");
        int bytes = Objects.requireNonNull(type, "type").getBytes(StandardCharsets.UTF_8).length;
        if (bytes < 1 || bytes > MAX_NAME_BYTES) {
            throw new IllegalArgumentException("a job type has 1 to " + MAX_NAME_BYTES + " bytes, not " + bytes);
        }
        synchronized (handlers) {
            if (handlers.size() >= MAX_TYPES) {
                throw new IllegalArgumentException("more than " + MAX_TYPES + " job types");
            }
            if (handlers.putIfAbsent(type, handler) != null) {
                throw new IllegalArgumentException("there are two handlers for \"" + type + "\"");
            }
        }
        return this;
    }

    /**
     * Registers a handler whose arguments and result have types. A record takes the arguments of the job in the order of
     * its components, or by name where the job has one argument, an object. Arguments that do not fit fail the job for
     * good, with the type {@code InvalidArgs}.
     *
     * @param args what it takes, mostly a record; see {@link Json#convert}.
     * @param result what it returns; {@code Void} for nothing.
     * @return this worker.
     */
    public <A, R> Worker job(String type, Class<A> args, Class<R> result, TypedHandler<A, R> handler) {
        Objects.requireNonNull(args, "args");
        Objects.requireNonNull(result, "result");
        Objects.requireNonNull(handler, "handler");
        return job(type, job -> {
            A typed;
            try {
                typed = JsonTypes.arguments(job.args(), args);
            } catch (JsonException unfit) {
                throw new Discard(unfit.getMessage()).type("InvalidArgs");
            }
            return handler.handle(typed, job);
        });
    }

    /**
     * Adds a middleware around every handler. The first one is the outermost.
     *
     * @return this worker.
     */
    public Worker middleware(Middleware middleware) {
        middlewares.add(Objects.requireNonNull(middleware, "middleware"));
        return this;
    }

    /**
     * Takes jobs until ojs-init, a signal or {@link #stop} says that it is enough, and what is held is finished. Then let
     * the program end. A worker runs once. An interrupt of the calling thread is a {@link #stop}.
     *
     * @throws OjsException.NotUnderOjsInit if {@code OJS_SOCKET} is missing, or nobody listens there.
     * @throws OjsException.ConnectionLost if ojs-init has closed the connection.
     * @throws OjsException.Protocol if ojs-init speaks another version of the protocol.
     * @throws OjsException.Stalled if ojs-init did not read the last answers for 10 s.
     */
    public void run() {
        String path = options.socketPath == null ? System.getenv(ENV_SOCKET) : options.socketPath;
        synchronized (handlers) {
            if (runner != null) {
                throw new OjsException("a worker runs once; when it has ended, let the process end too");
            }
            if (handlers.isEmpty()) {
                throw new OjsException("no handler: add one with worker.job(\"some.type\", job -> ...)");
            }
            if (path == null || path.isEmpty()) {
                String mode = System.getenv(ENV_MODE);
                if (mode != null && MODES_WITHOUT_SOCKET.contains(mode)) {
                    throw new OjsException.NotUnderOjsInit(ENV_SOCKET + " is not set, because ojs-init runs in mode " + mode
                            + ": leave " + ENV_MODE + " out, or set it to socket", null);
                }
                throw new OjsException.NotUnderOjsInit(ENV_SOCKET + " is not set: this is a worker for ojs-init, which "
                        + "starts it and gives it jobs. Run it as: ojs-init -- java -jar worker.jar", null);
            }
            runner = Runner.connect(this, path);
        }
        if (isStopAsked) {
            runner.stop();
        }
        runner.run();
    }

    /** Takes no more jobs, finishes those that are held, then lets {@link #run} return. From any thread. */
    public void stop() {
        isStopAsked = true;
        Runner running = runner;
        if (running != null) {
            running.stop();
        }
    }

    // Tests of handlers

    /**
     * Does one job in this process, without ojs-init, in the same way as {@link #run} does: arguments and result go through
     * JSON, middleware runs, failures become what the backend would be told. For tests.
     *
     * @param type the type of the job.
     * @param args its arguments.
     * @return what the backend would be told.
     * @throws JsonException if the arguments are no JSON.
     * @throws OjsException if the handler does not end within 60 s.
     */
    public Outcome perform(String type, Object... args) {
        return perform(new Delivery(), type, args);
    }

    /**
     * The same under conditions: a timeout, a shutdown with so much time left, a cancel, a checkpoint of an earlier attempt.
     *
     * @param delivery the conditions.
     * @param type the type of the job.
     * @param args its arguments.
     * @return what the backend would be told.
     * @throws JsonException if the arguments, or something in the conditions, are no JSON.
     * @throws OjsException if the handler does not end within the delivery's {@link Delivery#patience}.
     */
    public Outcome perform(Delivery delivery, String type, Object... args) {
        return new Rehearsal(this, delivery).perform(type, Arrays.asList(args));
    }

    // What it knows

    /** Which state ojs-init has told: running, quiet or terminate. */
    public String state() {
        return runner == null ? "running" : runner.session().state();
    }

    /** Time until the stop phase, when what is not finished is cut off; none while nothing shuts down. */
    public Optional<Duration> remaining() {
        return runner == null ? Optional.empty() : runner.session().remaining();
    }

    /** Most jobs at once; 0 before that is known, which it is once connected. */
    public int concurrency() {
        return runner == null ? options.concurrency : runner.session().concurrency;
    }

    /** The name that ojs-init has towards the backend; none before it is known. */
    public Optional<String> workerId() {
        return runner == null ? Optional.empty() : Optional.ofNullable(runner.session().workerId);
    }

    // For the session

    Options options() {
        return options;
    }

    List<Middleware> middlewares() {
        return middlewares;
    }

    /** The types to name; null for every type. */
    List<String> types() {
        synchronized (handlers) {
            return handlers.containsKey(EVERY_OTHER) ? null : new ArrayList<>(handlers.keySet());
        }
    }

    Handler handlerOf(String type) {
        synchronized (handlers) {
            Handler handler = handlers.get(type);
            return handler == null ? handlers.get(EVERY_OTHER) : handler;
        }
    }

    void execute(Runnable handling) {
        Executor executor = options.executor;
        if (executor == null) {
            ProcessEnd.daemon("ojs-job", handling);
        } else {
            executor.execute(handling);
        }
    }
}
