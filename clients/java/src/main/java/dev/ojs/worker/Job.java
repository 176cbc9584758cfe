package dev.ojs.worker;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Function;

/** A job, as its handler sees it. Its methods may be called from any thread. */
@SuppressWarnings("unchecked")
public final class Job {
    /**
     * Nothing new begins if a shutdown leaves less time, or less than 1.5 times what it usually
     * takes.
     */
    private static final long LEAST_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

    /** What all jobs of a session share. */
    record Shared(Json json, Link link, Lifecycle lifecycle, Map<String, Map<Integer, Long>> stepNanos, boolean interrupts) {}

    private final JsonNode envelope;
    private final JsonNode traceparent;
    private final Shared shared;
    private final Resume resume;
    private final Instant deadline;
    private final Map<String, Object> locals = new ConcurrentHashMap<>();

    // Guarded by this; the reason may be read without.
    private volatile String cancelReason;
    private Thread thread;
    private boolean isAnswered;

    Job(JsonNode envelope, JsonNode checkpoint, JsonNode traceparent, Shared shared) {
        this.envelope = envelope;
        this.traceparent = traceparent.isTextual() ? traceparent : envelope.path("meta").path("traceparent");
        this.shared = shared;
        this.deadline = deadlineOf(envelope);
        this.resume = new Resume(shared.json.mapper, checkpoint, this::save, this::mayBegin,
                shared.stepNanos.computeIfAbsent(type(), type -> new ConcurrentHashMap<>()));
    }

    private static Instant deadlineOf(JsonNode envelope) {
        double millis = envelope.path("timeout_ms").asDouble(envelope.path("timeout").asDouble() * 1000);
        return millis > 0 && millis < 1e15 ? Instant.now().plusNanos((long) (millis * 1e6)) : null;
    }

    // The envelope

    /**
     * The id, the same in each delivery.
     *
     * @return the id.
     */
    public String id() { return envelope.get("id").textValue(); }

    /**
     * The type, which decides about the handler.
     *
     * @return the type.
     */
    public String type() { return envelope.get("type").textValue(); }

    /**
     * The queue that it came from.
     *
     * @return the name of the queue.
     */
    public String queue() { return envelope.path("queue").asText("default"); }

    /**
     * The number of this attempt, as the backend counts: some begin with 0, others with 1.
     *
     * @return empty if the backend does not say it.
     */
    public OptionalInt attempt() {
        JsonNode attempt = envelope.path("attempt");
        return attempt.canConvertToInt() ? OptionalInt.of(attempt.intValue()) : OptionalInt.empty();
    }

    /**
     * Whether a failure of this attempt is for good.
     *
     * @return false if that is unknown.
     */
    public boolean isLastAttempt() {
        return envelope.path("attempt").asInt(-1) >= envelope.path("max_attempts").asInt(Integer.MAX_VALUE);
    }

    /** Whether the backend is going to try the job again; false if that is unknown. */
    boolean hasMoreAttempts() {
        return envelope.path("attempt").asInt(Integer.MAX_VALUE) < envelope.path("max_attempts").asInt(-1);
    }

    /**
     * The arguments, as Jackson reads them without a type.
     *
     * @return a list of its own.
     */
    public List<Object> args() { return shared.json.convert(argsNode(), List.class); }

    JsonNode argsNode() {
        return envelope.path("args").isArray() ? envelope.get("args") : shared.json.mapper.createArrayNode();
    }

    /**
     * One argument.
     *
     * @param <T> its type.
     * @param index from 0.
     * @param type its type.
     * @return the argument.
     * @throws InvalidArgs if there is none, or it does not fit.
     */
    public <T> T arg(int index, Class<T> type) { return Arguments.at(index, argsNode(), shared.json.mapper, type); }

    /**
     * Values that travel with the job: trace context, tenant.
     *
     * @return a map of its own.
     */
    public Map<String, Object> meta() {
        return envelope.path("meta").isObject() ? shared.json.convert(envelope.get("meta"), Map.class) : new LinkedHashMap<>();
    }

    /**
     * The W3C context of ojs-init's span of the job, the parent of the handler's own spans; without
     * one that of the producer, {@code meta.traceparent}.
     *
     * @return empty if there is neither.
     */
    public Optional<String> traceparent() { return Optional.ofNullable(traceparent.textValue()); }

    /**
     * When the timeout of the job is over, by the clock of this machine.
     *
     * @return empty if it has no timeout.
     */
    public Optional<Instant> deadline() { return Optional.ofNullable(deadline); }

    /**
     * All fields that the backend sent.
     *
     * @return a map of its own.
     */
    public Map<String, Object> envelope() { return shared.json.convert(envelope, Map.class); }

    /**
     * The state that an earlier attempt saved with {@link #checkpoint}.
     *
     * @return null if there is none.
     */
    public Object lastCheckpoint() { return lastCheckpoint(Object.class); }

    /**
     * The state that an earlier attempt saved with {@link #checkpoint}.
     *
     * @param <T> its type.
     * @param type its type.
     * @return null if there is none.
     * @throws IllegalArgumentException if it does not fit.
     */
    public <T> T lastCheckpoint(Class<T> type) { return shared.json.convert(resume.saved, type); }

    /**
     * Things of this job alone, for middleware and handler.
     *
     * @return a map that is gone with the job.
     */
    public Map<String, Object> locals() { return locals; }

    /**
     * The fields for a log line: {@code job_id, job_type, queue, attempt}; from
     * {@code meta.traceparent} {@code trace_id, span_id}; and {@code log_level} from
     * {@code meta.log_level}. The MDC has them while the handler runs.
     *
     * @return a map of its own.
     */
    public Map<String, String> logFields() {
        Map<String, String> fields = new LinkedHashMap<>(Map.of("job_id", id(), "job_type", type(), "queue", queue()));
        attempt().ifPresent(attempt -> fields.put("attempt", Integer.toString(attempt)));
        JsonNode meta = envelope.path("meta");
        String[] trace = traceparent().orElse("").split("-");
        if (trace.length == 4) { fields.putAll(Map.of("trace_id", trace[1], "span_id", trace[2])); }
        if (meta.path("log_level").isTextual()) { fields.put("log_level", meta.path("log_level").textValue()); }
        return fields;
    }

    // Cancel and shutdown

    /**
     * Whether the handler should end soon.
     *
     * @return true once ojs-init has cancelled the job.
     */
    public boolean isCancelled() { return cancelReason != null; }

    /**
     * Why the job is cancelled: {@code shutdown, timeout, cancelled, lost}, or a later reason.
     *
     * @return empty as long as it is not.
     */
    public Optional<String> cancelReason() { return Optional.ofNullable(cancelReason); }

    /**
     * Ends the handler if the job is cancelled.
     *
     * @throws Cancelled if it is.
     */
    public void throwIfCancelled() {
        if (cancelReason != null) { throw new Cancelled(cancelReason); }
    }

    /**
     * Waits. Unlike {@code Thread.sleep} this ends at a cancel also with
     * {@link Options#interrupt interrupt(false)}.
     *
     * @param time not negative.
     * @throws Cancelled if the job is or was cancelled.
     * @throws InterruptedException if the thread is interrupted for another reason.
     */
    public void sleep(Duration time) throws InterruptedException {
        if (awaitCancelled(time)) { throw new Cancelled(cancelReason); }
    }

    /**
     * Waits until the job is cancelled.
     *
     * @throws InterruptedException if the thread is interrupted for another reason.
     */
    public void awaitCancelled() throws InterruptedException { awaitCancelled(Duration.ofDays(36_500)); }

    /**
     * Waits until the job is cancelled. The interrupt that comes with the cancel is cleared.
     *
     * @param atMost the longest time to wait.
     * @return {@link #isCancelled}.
     * @throws InterruptedException if the thread is interrupted for another reason.
     */
    public synchronized boolean awaitCancelled(Duration atMost) throws InterruptedException {
        long end = System.nanoTime() + atMost.toNanos();
        for (long left = end - System.nanoTime(); cancelReason == null && left > 0; left = end - System.nanoTime()) {
            try {
                TimeUnit.NANOSECONDS.timedWait(this, left);
            } catch (InterruptedException interrupted) {
                if (cancelReason == null) { throw interrupted; }
            }
        }
        if (cancelReason != null && thread == Thread.currentThread()) { Thread.interrupted(); }
        return isCancelled();
    }

    /**
     * Whether the worker is being shut down. The job may go on until it is cancelled.
     *
     * @return true from then on; see {@link #remaining}.
     */
    public boolean isStopping() { return shared.lifecycle.isTerminating(); }

    /**
     * Time until ojs-init cancels what is left.
     *
     * @return empty while the worker is not being shut down.
     */
    public Optional<Duration> remaining() { return shared.lifecycle.remaining(); }

    private void mayBegin(long usualNanos) {
        throwIfCancelled();
        Duration left = isStopping() ? remaining().orElse(null) : null;
        if (left != null && left.toNanos() < Math.max(usualNanos + usualNanos / 2, LEAST_NANOS)) {
            throw new Cancelled("resumes at its checkpoint");
        }
    }

    // Messages to ojs-init

    /**
     * Asks ojs-init to send a heartbeat for this job now. It sends them by itself at its interval.
     */
    public void heartbeat() { send("heartbeat", Map.of()); }

    /**
     * Reports the progress. ojs-init passes on at most one a second, the newest.
     *
     * @param fraction from 0.0 to 1.0; a number outside is moved to the nearer of both.
     * @throws IllegalArgumentException if the fraction is NaN.
     */
    public void progress(double fraction) { progress(fraction, null, null); }

    /**
     * Reports the progress with a message.
     *
     * @param fraction from 0.0 to 1.0; a number outside is moved to the nearer of both.
     * @param message for a person; null for none.
     * @throws IllegalArgumentException if the fraction is NaN.
     */
    public void progress(double fraction, String message) { progress(fraction, message, null); }

    /**
     * Reports the progress with a message and data.
     *
     * @param fraction from 0.0 to 1.0; a number outside is moved to the nearer of both.
     * @param message for a person; null for none.
     * @param data anything that Jackson can write; null for none.
     * @throws IllegalArgumentException if the fraction is NaN, Jackson cannot write the data, or it
     *     is more than {@code worker.max_frame}.
     */
    public void progress(double fraction, String message, Object data) {
        if (Double.isNaN(fraction)) { throw new IllegalArgumentException("progress cannot be NaN"); }
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("progress", Math.max(0, Math.min(1, fraction)));
        if (message != null) { fields.put("message", Json.mended(message)); }
        if (data != null) { fields.put("data", data); }
        send("progress", fields);
    }

    /**
     * Saves a state for the next attempt, which gets it as {@link #lastCheckpoint()}. When this
     * returns, ojs-init will deliver it even if this process crashes.
     *
     * @param state anything that Jackson can write; small, since backends take 64 KiB to 1 MiB.
     * @throws IllegalArgumentException if Jackson cannot write it.
     * @throws CheckpointTooLarge if it has more than {@code worker.max_frame}, or than 64 KiB
     *     together with steps and positions.
     * @throws OjsException if ojs-init is gone.
     */
    public void checkpoint(Object state) { resume.checkpoint(state); }

    private void save(JsonNode state) {
        send("checkpoint", Map.of("state", state));
        shared.link.awaitSent(new Link.Topic(this, "checkpoint"));
    }

    private void send(String kind, Map<String, ?> fields) {
        byte[] frame = shared.json.frame(kind, id(), fields);
        int bytes = frame.length - 1;
        int most = shared.lifecycle.maxFrame;
        if (bytes > most) { // ojs-init closes the connection after three of these
            String message = "the frame of a " + kind + " has " + bytes + " bytes, and ojs-init takes " + most
                    + " at most (worker.max_frame)";
            throw kind.equals("checkpoint") ? new CheckpointTooLarge(message) : new IllegalArgumentException(message);
        }
        synchronized (this) {
            if (isAnswered) { throw new OjsException(this + " was answered already"); }
            shared.link.send(new Link.Topic(this, kind), frame);
        }
    }

    // Resumable work

    /** A step that has no result. */
    public interface Action {
        /**
         * Does the step.
         *
         * @throws Exception as {@link Handler#handle}.
         */
        void run() throws Exception;
    }

    /**
     * Loops over rows, from the first on that no earlier attempt has finished:
     * {@code for (Row row : job.iterate(rows))}. Rows are counted, so they must come in the same
     * order each time. There may be one loop outside of steps, and one in each step.
     *
     * <p>The position is saved every 5 s and before the job is given back or fails. The loop ends
     * the handler with {@link Cancelled} if the job is cancelled or a shutdown leaves too little
     * time for another row.
     *
     * @param <T> the type of a row.
     * @param rows all rows; {@code stream::iterator} for a stream.
     * @return the rows that are left, for one loop.
     * @throws StepsChanged if the rows had keys in an earlier attempt.
     */
    public <T> Iterable<T> iterate(Iterable<T> rows) { return iterate(rows, null); }

    /**
     * Loops over rows that have keys. Rows are skipped up to the one that was finished last; if it
     * does not come any more, the loop fails the job with {@link StepsChanged}.
     *
     * @param <T> the type of a row.
     * @param rows all rows.
     * @param key gives the key of a row, such as its id; not null.
     * @return the rows that are left, for one loop.
     */
    public <T> Iterable<T> iterate(Iterable<T> rows, Function<? super T, ?> key) {
        Iterator<T> left = resume.loop(rows.iterator(), key);
        return () -> left;
    }

    /**
     * Does a part of the job once: the attempts after the one that finished it get its result from
     * the checkpoint. Steps have names of their own and come in the same order in each attempt.
     *
     * <p>A step ends the handler with {@link Cancelled} before it begins if the job is cancelled or
     * a shutdown leaves less time than 1.5 times what the step took last.
     *
     * @param name of the step, in the checkpoint and in errors.
     * @param body does the step; Jackson can write its result, which is small: 64 KiB are kept of
     *     all results, positions and the state.
     * @return the result, as Jackson reads it without a type.
     * @throws StepsChanged if earlier attempts finished other steps, or in another order.
     * @throws CheckpointTooLarge if there are more than 64 KiB to keep.
     * @throws Exception what the body throws; the step is not finished then.
     */
    public Object step(String name, Callable<?> body) throws Exception { return step(name, Object.class, body); }

    /**
     * Does a part of the job once, with a result of this type.
     *
     * @param <T> the type of the result.
     * @param name of the step.
     * @param type the type of the result.
     * @param body does the step.
     * @return the result, written and read by Jackson.
     * @throws Exception as {@link #step(String, Callable)}.
     */
    public <T> T step(String name, Class<T> type, Callable<? extends T> body) throws Exception {
        return shared.json.convert(resume.step(name, body), type);
    }

    /**
     * Does a part of the job once, without a result.
     *
     * @param name of the step.
     * @param body does the step.
     * @throws Exception as {@link #step(String, Callable)}.
     */
    public void step(String name, Action body) throws Exception {
        resume.step(name, () -> { body.run(); return null; });
    }

    @Override public String toString() { return Json.oneLine("job " + id() + " (" + type() + ")"); }

    // For the session

    /** Before the handler, on its thread. A job that is cancelled already does not come to it. */
    synchronized void begin() {
        throwIfCancelled();
        thread = Thread.currentThread();
        notifyAll();
    }

    /** After the handler: no interrupt comes after this, and none is left. */
    synchronized void end() {
        thread = null;
        Thread.interrupted();
    }

    synchronized void awaitBegun() throws InterruptedException {
        while (thread == null && !isAnswered) { wait(); }
    }

    /** Cancels the job; false if it is cancelled already. */
    synchronized boolean cancel(String reason) {
        if (cancelReason != null) { return false; }
        cancelReason = reason;
        if (thread != null && shared.interrupts) { thread.interrupt(); }
        notifyAll();
        return true;
    }

    /** Saves the position before an answer after which the job comes again. */
    void flush() { resume.flush(); }

    /** Sends the one answer; no other frame comes after it. */
    synchronized void answer(byte[] frame) {
        isAnswered = true;
        notifyAll();
        shared.link.withdraw(new Link.Topic(this, "progress"));
        shared.link.send(new Link.Topic(this, "answer"), frame);
    }
}
