package dev.ojs.worker;

import java.util.*;
import java.util.concurrent.*;
import java.util.function.BiConsumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The handlers of a worker, what runs around them, and how. */
final class Registry {
    static final Logger LOG = LoggerFactory.getLogger("dev.ojs.worker");
    private static final String EVERY_OTHER = "*";

    final Options options;
    final Json json;
    final Executor executor;
    final Map<String, Handler> handlers = new ConcurrentHashMap<>();
    /** The first one is the outermost. */
    final List<Middleware> middlewares = new CopyOnWriteArrayList<>();
    volatile BiConsumer<Job, Throwable> failureListener = (job, error) -> {};

    Registry(Options options) {
        this.options = options;
        this.json = new Json(options.mapper);
        this.executor = options.executor == null ? Executors.newCachedThreadPool(Registry::newThread) : options.executor;
    }

    /** A daemon thread, because a handler that hangs must not keep the process alive. */
    private static Thread newThread(Runnable task) {
        Thread thread = new Thread(task, "ojs-job");
        thread.setDaemon(true);
        return thread;
    }

    /** The types for `ready`; null for every type. */
    List<String> types() { return handlers.containsKey(EVERY_OTHER) ? null : List.copyOf(handlers.keySet()); }

    /** The handler of this type; null if there is none. */
    Handler handlerOf(String type) { return handlers.getOrDefault(type, handlers.get(EVERY_OTHER)); }
}
