package dev.ojs.worker;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.logging.Formatter;
import java.util.logging.Level;
import java.util.logging.LogRecord;

/**
 * One JSON object a line, in the shape of ojs-init's own log (the Open Job Spec's logging extension), with the id, type,
 * queue, attempt and trace of the job in each line that is logged while its handler runs on the thread.
 *
 * <p>{@link JobLog#install()} uses it; in a file of properties it is
 * {@code java.util.logging.ConsoleHandler.formatter = dev.ojs.worker.JobLogFormatter}.
 */
public final class JobLogFormatter extends Formatter {
    private static final int MAX_CHARS = 10_000;
    private static final DateTimeFormatter MOMENT =
            DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC);

    /** Makes one; it has no settings. */
    public JobLogFormatter() {}

    @Override
    public String format(LogRecord entry) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("timestamp", MOMENT.format(entry.getInstant()));
        severity(line, entry.getLevel());
        line.put("message", Failures.clean(formatMessage(entry), MAX_CHARS));
        line.put("category", "worker");
        Job job = JobLog.current().orElse(null);
        line.put("component", job == null ? "worker" : "handler");
        if (job != null) {
            line.put("ojs", JobLog.about(job));
            Map<String, String> trace = JobLog.trace(job);
            if (!trace.isEmpty()) {
                line.put("trace", trace);
            }
        }
        if (entry.getThrown() != null) {
            line.put("error", error(entry.getThrown()));
        }
        if (entry.getLoggerName() != null) {
            line.put("attributes", Map.of("logger", Failures.clean(entry.getLoggerName(), MAX_CHARS)));
        }
        return Json.write(line) + "\n";
    }

    private static void severity(Map<String, Object> line, Level level) {
        int value = level.intValue();
        String name = value > Level.SEVERE.intValue() ? "FATAL"
                : value == Level.SEVERE.intValue() ? "ERROR"
                : value >= Level.WARNING.intValue() ? "WARN"
                : value >= Level.INFO.intValue() ? "INFO"
                : value >= Level.FINE.intValue() ? "DEBUG" : "TRACE";
        int number = switch (name) {
            case "FATAL" -> 21;
            case "ERROR" -> 17;
            case "WARN" -> 13;
            case "INFO" -> 9;
            case "DEBUG" -> 5;
            default -> 1;
        };
        line.put("severity", name);
        line.put("severity_number", number);
    }

    private static Map<String, Object> error(Throwable thrown) {
        StringWriter stack = new StringWriter();
        try {
            thrown.printStackTrace(new PrintWriter(stack));
        } catch (RuntimeException broken) { // a message of the program's own
            stack.append("(no stack: ").append(Failures.name(broken)).append(')');
        }
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("type", Failures.name(thrown));
        error.put("message", Failures.message(thrown));
        error.put("stack", Failures.clean(stack.toString(), MAX_CHARS));
        return error;
    }
}
