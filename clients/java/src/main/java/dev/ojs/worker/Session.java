package dev.ojs.worker;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.*;

/** The protocol: reads frames, knows which jobs are held, sends their answers. */
final class Session {
    private static final int PROTOCOL = 1;
    /** Most lines that wait for a log, and how long the end waits for them. */
    private static final int MOST_LINES = 100;
    private static final int LAST_LINES_MILLIS = 250;
    /** The id of no job. ojs-init answers a heartbeat for it once it has read what came before. */
    private static final String NO_JOB = "ojs-worker-stop";
    /** The id in front of a job that Jackson cannot read. Beyond that nobody knows whose an "id" is. */
    private static final Pattern JOB_ID = Pattern.compile("\\{\"type\":\"job\",\"job_id\":(\"[^\"\\\\]*+(?:\\\\.[^\"\\\\]*+)*+\")");

    private final Registry registry;
    private final Link link;
    private final Lifecycle lifecycle = new Lifecycle();
    private final Job.Shared shared;
    private final Map<String, Job> held = new ConcurrentHashMap<>();
    /** Jobs whose answer the link has not got yet: a job is not held any more before that. */
    private final AtomicInteger unanswered = new AtomicInteger();
    /** What the thread that reads logs. It does not wait for a log that nobody reads. */
    private final ExecutorService lines = new ThreadPoolExecutor(0, 1, 1, TimeUnit.SECONDS,
            new ArrayBlockingQueue<>(MOST_LINES), Session::logThread, new ThreadPoolExecutor.DiscardPolicy());
    private boolean isReady;
    private boolean hasWarnedOfOffer;
    private boolean isStopAsked;
    /** No job is on its way any more. */
    private volatile boolean isStopping;

    Session(Registry registry, Link link) {
        this.registry = registry;
        this.link = link;
        shared = new Job.Shared(registry.json, link, lifecycle, new ConcurrentHashMap<>(), registry.options.interrupts);
    }

    /** Whether no job is held and none is taken any more. */
    boolean isOver() { return (isStopping || lifecycle.isTerminating()) && unanswered.get() == 0; }

    int heldJobs() { return unanswered.get(); }

    /** The job with this id; null if it is not held. */
    Job heldJob(String id) { return held.get(id); }

    /** Takes no more jobs; those that are held go on. From any thread. */
    synchronized void stop() {
        if (isStopAsked) { return; }
        isStopAsked = true;
        if (isReady && !lifecycle.isTerminating()) {
            sendReady(0);
            send("heartbeat", NO_JOB, Map.of());
        } else {
            isStopping = true;
            link.wakeUp();
        }
    }

    /** Cancels every job that is held. */
    void cancelAll(String reason) { held.values().forEach(job -> job.cancel(reason)); }

    private static Thread logThread(Runnable task) {
        Thread thread = new Thread(task, "ojs-log");
        thread.setDaemon(true);
        return thread;
    }

    /** Logs a line soon, unless too many wait. */
    private void logLater(Runnable line) {
        try {
            lines.execute(line);
        } catch (OutOfMemoryError none) {
            // There is no thread for it.
        }
    }

    /** Waits for the lines that are left, but not for ever. */
    void flushLog() {
        lines.shutdown();
        try {
            lines.awaitTermination(LAST_LINES_MILLIS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
        }
    }

    // Frames from ojs-init

    /** @throws OjsException if the worker cannot go on. */
    void onLine(ByteBuffer line) {
        JsonNode frame;
        try {
            frame = registry.json.mapper.readTree(line.array(), line.position(), line.remaining());
        } catch (IOException unreadable) {
            // Without the message of Jackson, which quotes the frame.
            logLater(() -> Registry.LOG.error("a frame from ojs-init cannot be read: {}", unreadable.getClass().getName()));
            Matcher job = JOB_ID.matcher(StandardCharsets.UTF_8.decode(line));
            if (job.lookingAt()) { refuse(textOf(job.group(1)), "invalid_job", "Jackson cannot read the job", false); }
            return;
        }
        switch (frame.path("type").asText()) {
            case "job" -> onJob(frame);
            case "cancel" -> onCancel(frame.path("job_id").asText(), frame.path("reason").asText("cancelled"));
            case "ping" -> send("pong", null, Map.of("id", frame.path("id")));
            case "lifecycle" -> onLifecycle(frame);
            case "hello" -> onHello(frame);
            case "error" -> onError(frame.path("code").asText(), frame.path("message").asText(), frame.path("job_id").asText());
            default -> logLater(() -> Registry.LOG.trace("a frame of an unknown type is ignored"));
        }
    }

    private synchronized void onHello(JsonNode frame) {
        if (frame.path("protocol").asInt() != PROTOCOL) {
            throw new OjsException("ojs-init speaks protocol " + frame.path("protocol").asInt() + ", this worker " + PROTOCOL);
        }
        onLifecycle(frame);
        lifecycle.maxFrame = frame.path("max_frame").asInt(Integer.MAX_VALUE);
        int most = Math.max(1, frame.path("concurrency").asInt(1));
        if (!isStopAsked && !lifecycle.isTerminating()) {
            isReady = true;
            sendReady(registry.options.concurrency == 0 ? most : Math.min(registry.options.concurrency, most));
        }
    }

    private void sendReady(int jobs) {
        String client = "ojs-worker-java " + Objects.toString(Session.class.getPackage().getImplementationVersion(), "");
        Map<String, Object> fields = new HashMap<>(Map.of("protocol", PROTOCOL, "concurrency", jobs, "ping", true,
                "ok", false, "client", client));
        List<String> types = registry.types();
        if (types != null) { fields.put("types", types); }
        int size = registry.json.frame("ready", null, fields).length - 1;
        if (size > lifecycle.maxFrame) {
            throw new OjsException("the ready with the job types has " + size + " bytes, and ojs-init takes "
                    + lifecycle.maxFrame + " (worker.max_frame)");
        }
        send("ready", null, fields);
    }

    private void onLifecycle(JsonNode frame) {
        if (lifecycle.isTerminating()) { return; } // it is never taken back
        lifecycle.state = frame.path("state").asText();
        if (frame.path("remaining_ms").isNumber()) { lifecycle.stopAfter(frame.path("remaining_ms").asLong()); }
        String state = lifecycle.state;
        String reason = frame.path("reason").asText("at the start");
        logLater(() -> Registry.LOG.info("{} ({})", Json.oneLine(state), Json.oneLine(reason)));
    }

    private void onJob(JsonNode frame) {
        JsonNode envelope = frame.path("job");
        String id = envelope.path("id").asText();
        String type = envelope.path("type").textValue();
        if (held.containsKey(id)) {
            logLater(() -> Registry.LOG.warn("job {} came again while its handler runs, which goes on", Json.oneLine(id)));
        } else if (type == null || registry.handlerOf(type) == null) {
            refuse(id, "handler_not_found", "this worker has no handler for the type " + Json.oneLine(type), true);
        } else {
            take(new Job(envelope, frame.path("checkpoint"), frame.path("traceparent"), shared));
        }
    }

    private String textOf(String json) {
        try {
            return registry.json.mapper.readValue(json, String.class);
        } catch (JsonProcessingException impossible) {
            throw new UncheckedIOException(impossible);
        }
    }

    /** Fails a job that no handler gets. */
    private void refuse(String id, String code, String message, boolean isRetryable) {
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("retryable", isRetryable);
        error.put("code", code);
        error.put("message", message);
        send("fail", id, Map.of("error", error));
        logLater(() -> Registry.LOG.error("job {}: {}", Json.oneLine(id), message));
    }

    private void take(Job job) {
        held.put(job.id(), job);
        unanswered.incrementAndGet();
        try {
            registry.executor.execute(new Execution(job, registry, this::answer));
        } catch (RuntimeException | OutOfMemoryError none) {
            answer(job, registry.json.frame("release", job.id(), Map.of("reason", "no thread")));
            logLater(() -> Registry.LOG.error("{}: there is no thread for it", job, none));
        }
    }

    private void onCancel(String jobId, String reason) {
        Job job = held.get(jobId);
        if (job != null && job.cancel(reason)) {
            logLater(() -> Registry.LOG.info("{} is cancelled: {}", job, Json.oneLine(reason)));
        }
    }

    /** An error is a message, and ends no handler. */
    private void onError(String code, String message, String jobId) {
        if (jobId.equals(NO_JOB)) {
            isStopping = true;
            return;
        }
        if (code.equals("unsupported_protocol")) {
            throw new OjsException("ojs-init does not speak protocol " + PROTOCOL + ": " + Json.oneLine(message));
        }
        if (hasWarnedOfOffer && code.equals("not_offered")) { return; }
        hasWarnedOfOffer |= code.equals("not_offered");
        logLater(() -> Registry.LOG.warn("job {}: ojs-init says {}: {}", Json.oneLine(jobId), Json.oneLine(code),
                Json.oneLine(message)));
    }

    // Frames to ojs-init

    private void send(String type, String jobId, Map<String, ?> fields) {
        link.send(new Link.Topic(new Object(), type), registry.json.frame(type, jobId, fields));
    }

    private void answer(Job job, byte[] frame) {
        // First, because the same id may come again right after the answer.
        held.remove(job.id(), job);
        job.answer(frame);
        unanswered.decrementAndGet();
        if (isStopping || lifecycle.isTerminating()) { link.wakeUp(); }
    }
}
