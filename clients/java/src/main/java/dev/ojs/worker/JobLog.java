package dev.ojs.worker;

import java.io.UnsupportedEncodingException;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.logging.ConsoleHandler;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.Logger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Which job a thread works for, and log lines that say so, those of libraries included.
 *
 * <p>{@link #install()} does it for {@code java.util.logging}. Other systems take {@link #fields} into their own context:
 *
 * <pre>{@code
 * worker.middleware((job, next) -> {
 *     JobLog.fields(job).forEach(MDC::put);
 *     try {
 *         return next.run();
 *     } finally {
 *         MDC.clear();
 *     }
 * });
 * }</pre>
 */
public final class JobLog {
    /** Both parts in hexadecimal, neither all zeros; the version ff is none. */
    private static final Pattern TRACEPARENT = Pattern.compile(
            "(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?");
    private static final int MAX_ID_CHARS = 200;
    private static final String ENV_LEVEL = "OJS_LOG_LEVEL";
    private static final ThreadLocal<Job> CURRENT = new ThreadLocal<>();

    private static final Object LOCK = new Object();
    private static final Logger ROOT = Logger.getLogger("");
    /** What counts for lines of no job, or of a job without a level of its own; null before {@link #install()}. */
    private static volatile Level base;
    /** The levels of the jobs that run and have one of their own: how many have it. */
    private static final Map<Integer, Integer> OWN = new TreeMap<>();

    private JobLog() {}

    /** The job whose handler runs on this thread; none outside of handlers, and on threads that a handler has started. */
    public static Optional<Job> current() {
        return Optional.ofNullable(CURRENT.get());
    }

    /**
     * A task for another thread that belongs to the job of this one: what it logs is about that job.
     *
     * @param task what to run.
     * @return the same, with the job around it; the task itself where no job's handler runs.
     */
    public static Runnable wrap(Runnable task) {
        Job job = CURRENT.get();
        return job == null ? task : () -> {
            Job before = CURRENT.get();
            CURRENT.set(job);
            try {
                task.run();
            } finally {
                CURRENT.set(before);
            }
        };
    }

    /**
     * What a log line should say about a job: {@code job_id}, {@code job_type}, {@code queue}, {@code attempt}, and, where
     * the job has them, {@code trace_id} and {@code span_id}.
     *
     * @param job what the line is about.
     * @return the fields by name; a new map.
     */
    public static Map<String, String> fields(Job job) {
        Map<String, String> fields = new LinkedHashMap<>();
        about(job).forEach((name, value) -> fields.put(name, value.toString()));
        fields.putAll(trace(job));
        return fields;
    }

    /**
     * Logs everything of this process as JSON lines to standard error, as ojs-init does, from the level that
     * {@code OJS_LOG_LEVEL} names on (trace, debug, info, warn, error; info without it).
     */
    public static void install() {
        Level level = level(System.getenv(ENV_LEVEL));
        install(level == null ? Level.INFO : level);
    }

    /**
     * The same from this level on. The handlers of the root logger are replaced by one with a {@link JobLogFormatter}. From
     * then on a job's {@code meta.log_level} sets the level for that job alone. Loggers that have a level of their own
     * keep it.
     *
     * @param level the least level.
     */
    public static void install(Level level) {
        Handler handler = new ConsoleHandler();
        handler.setLevel(Level.ALL);
        handler.setFormatter(new JobLogFormatter());
        handler.setFilter(entry -> letsPass(entry.getLevel(), entry.getLoggerName()));
        try {
            handler.setEncoding("UTF-8");
        } catch (UnsupportedEncodingException never) {
            throw new OjsException("no UTF-8: " + never.getMessage());
        }
        synchronized (LOCK) {
            for (Handler other : ROOT.getHandlers()) {
                ROOT.removeHandler(other);
            }
            ROOT.addHandler(handler);
            base = level;
            apply();
        }
    }

    // For the session and the formatter

    /** From here on this thread works for that job. Returns what {@link #leave} wants to know. */
    static Level enter(Job job) {
        CURRENT.set(job);
        Level own = own(job);
        count(own, 1);
        return own;
    }

    static void leave(Level own) {
        count(own, -1);
        CURRENT.remove();
    }

    /** The parts of `ojs` in a log line. */
    static Map<String, Object> about(Job job) {
        Map<String, Object> about = new LinkedHashMap<>();
        about.put("job_id", Failures.clean(job.id(), MAX_ID_CHARS));
        about.put("job_type", Failures.clean(job.type(), MAX_ID_CHARS));
        about.put("queue", Failures.clean(job.queue(), MAX_ID_CHARS));
        job.attempt().ifPresent(attempt -> about.put("attempt", attempt));
        return about;
    }

    /** The trace that a job was enqueued in; empty if there is none. */
    static Map<String, String> trace(Job job) {
        Map<String, String> trace = new LinkedHashMap<>();
        Map<String, Object> meta = job.meta();
        if (meta.get("traceparent") instanceof String parent) {
            Matcher parts = TRACEPARENT.matcher(parent);
            if (parts.matches()) {
                trace.put("trace_id", parts.group(1));
                trace.put("span_id", parts.group(2));
                return trace;
            }
        }
        if (meta.get("trace_id") instanceof String id && !id.isEmpty()) {
            trace.put("trace_id", Failures.clean(id, MAX_ID_CHARS));
        }
        return trace;
    }

    // Levels

    /** The level of this name; null if there is none. */
    private static Level level(Object name) {
        if (!(name instanceof String text)) {
            return null;
        }
        return switch (text.toLowerCase(Locale.ROOT)) {
            case "trace" -> Level.FINEST;
            case "debug" -> Level.FINE;
            case "info" -> Level.INFO;
            case "warn", "warning" -> Level.WARNING;
            case "error", "fatal" -> Level.SEVERE;
            default -> null;
        };
    }

    private static Level own(Job job) {
        return job == null ? null : level(job.meta().get("log_level"));
    }

    private static boolean letsPass(Level level, String logger) {
        Level own = own(CURRENT.get());
        if (own != null) {
            return level.intValue() >= own.intValue();
        }
        return base == null || level.intValue() >= base.intValue() || hasOwnLevel(logger);
    }

    /** Whether the program has set the level of this logger, or of one above it: then the line was asked for. */
    private static boolean hasOwnLevel(String name) {
        Logger logger = name == null ? null : LogManager.getLogManager().getLogger(name);
        while (logger != null && logger != ROOT) {
            if (logger.getLevel() != null) {
                return true;
            }
            logger = logger.getParent();
        }
        return false;
    }

    private static void count(Level own, int more) {
        if (own != null) {
            synchronized (LOCK) {
                OWN.merge(own.intValue(), more, (before, change) -> before + change == 0 ? null : before + change);
                apply();
            }
        }
    }

    /** Loggers ask for the level before there is a line: so the least of all counts for them, and the filter decides. */
    private static void apply() {
        if (base == null) {
            return;
        }
        int least = base.intValue();
        for (int own : OWN.keySet()) {
            least = Math.min(least, own);
        }
        if (ROOT.getLevel() == null || ROOT.getLevel().intValue() != least) {
            ROOT.setLevel(Level.parse(Integer.toString(least)));
        }
    }
}
