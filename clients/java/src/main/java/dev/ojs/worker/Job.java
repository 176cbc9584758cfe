package dev.ojs.worker;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.logging.Level;

/** What a handler is given. Its methods may be called from any thread. */
public final class Job {
    private static final long LONGEST_TIMEOUT_MILLIS = Duration.ofDays(36_500).toMillis();

    /** What is said about a job before its answer. */
    enum News {
        PROGRESS, CHECKPOINT, HEARTBEAT
    }

    /** What was said and may wait to be written; guarded by the session's lock. */
    final Map<News, Outgoing> waiting = new EnumMap<>(News.class);

    private final Session session;
    private final Map<String, Object> envelope;
    private final String id;
    private final String type;
    private final String raw;
    private final Resume resume;
    private final Instant deadline;
    private final Map<String, Object> locals = new ConcurrentHashMap<>();
    private final Object monitor = new Object();
    private Thread thread;
    private boolean isStopping;
    private volatile String cancelReason;
    private volatile boolean hasBegun;

    Job(Session session, Map<String, Object> envelope, String raw, Object saved) {
        this.session = session;
        this.envelope = envelope;
        this.id = (String) envelope.get("id");
        this.type = (String) envelope.get("type");
        this.raw = raw;
        this.deadline = deadlineOf(envelope);
        this.resume = new Resume(this, saved);
    }

    /** Whether the backend tries the job again; false if that is unknown. */
    boolean hasMoreAttempts() {
        return envelope.get("attempt") instanceof Long attempt && envelope.get("max_attempts") instanceof Long most
                && attempt < most;
    }

    private static Instant deadlineOf(Map<String, Object> envelope) {
        double millis = 0;
        if (envelope.get("timeout_ms") instanceof Number timeout) {
            millis = timeout.doubleValue();
        } else if (envelope.get("timeout") instanceof Number timeout) {
            millis = timeout.doubleValue() * 1000;
        }
        return millis > 0 && millis <= LONGEST_TIMEOUT_MILLIS ? Instant.now().plusNanos((long) (millis * 1e6)) : null;
    }

    // What it is

    /** Its id, the same in each delivery. */
    public String id() {
        return id;
    }

    /** What kind of work it is. */
    public String type() {
        return type;
    }

    /** The queue that it came from. */
    public String queue() {
        return envelope.get("queue") instanceof String queue ? queue : "default";
    }

    /** The number of this attempt, as the backend counts: some begin with 0. */
    public OptionalInt attempt() {
        return envelope.get("attempt") instanceof Long attempt && attempt == attempt.intValue()
                ? OptionalInt.of(attempt.intValue())
                : OptionalInt.empty();
    }

    /** Its arguments, as {@link Json} reads them. */
    @SuppressWarnings("unchecked")
    public List<Object> args() {
        return envelope.get("args") instanceof List<?> args ? (List<Object>) args : new ArrayList<>();
    }

    /**
     * The argument at this place, as a type of yours.
     *
     * @throws Discard if there is none, or it does not fit: see {@link Json#convert}.
     */
    public <T> T arg(int index, Class<T> type) {
        try {
            if (index >= args().size()) {
                throw new JsonException("args[" + index + "] is missing");
            }
            return JsonTypes.convert(args().get(index), type, "args[" + index + "]");
        } catch (JsonException unfit) {
            throw new Discard(unfit.getMessage()).type("InvalidArgs");
        }
    }

    /** What travels with it: trace context, tenant and other things. */
    @SuppressWarnings("unchecked")
    public Map<String, Object> meta() {
        return envelope.get("meta") instanceof Map<?, ?> meta ? (Map<String, Object>) meta : new LinkedHashMap<>();
    }

    /** When its timeout will be over, by the clock of this machine; none if it has no timeout. */
    public Optional<Instant> deadline() {
        return Optional.ofNullable(deadline);
    }

    /** All of it. */
    public Map<String, Object> envelope() {
        return envelope;
    }

    /** All of it as text, exactly as the backend sent it. */
    public String raw() {
        return raw;
    }

    /** What an earlier attempt saved with {@link #checkpoint}; null if nothing. */
    public Object lastCheckpoint() {
        return resume.saved();
    }

    /**
     * The same as a type of yours; null if nothing was saved.
     *
     * @throws JsonException if it does not fit.
     */
    public <T> T lastCheckpoint(Class<T> type) {
        return lastCheckpoint() == null ? null : Json.convert(lastCheckpoint(), type);
    }

    /** Things of this job alone, for middleware and handler; gone with the job. */
    public Map<String, Object> locals() {
        return locals;
    }

    // Cancel and stop

    /** Whether nobody waits for the result any more. Return, or throw, soon. */
    public boolean isCancelled() {
        return cancelReason != null;
    }

    /** Why it is cancelled: shutdown, timeout, cancelled or lost; none as long as it is not. */
    public Optional<String> cancelReason() {
        return Optional.ofNullable(cancelReason);
    }

    /** Ends the handler here if the job is cancelled; the right answer is given. */
    public void throwIfCancelled() {
        if (cancelReason != null) {
            throw new Cancelled(cancelReason);
        }
    }

    /**
     * Waits until the job is cancelled. The interrupt that comes with that is taken back.
     *
     * @throws InterruptedException if the thread is interrupted for another reason.
     */
    public void awaitCancelled() throws InterruptedException {
        await(Long.MAX_VALUE, false);
    }

    /**
     * The same, but not longer than this.
     *
     * @return whether it is cancelled.
     * @throws InterruptedException as {@link #awaitCancelled()}.
     */
    public boolean awaitCancelled(Duration atMost) throws InterruptedException {
        await(nanos(atMost), false);
        return isCancelled();
    }

    /** Whether the worker is being shut down. The job may go on until it is cancelled: see {@link #remaining}. */
    public boolean isStopping() {
        synchronized (monitor) {
            return isStopping;
        }
    }

    /**
     * Waits until the worker is being shut down or the job is cancelled, but not longer than this.
     *
     * @return {@link #isStopping}.
     * @throws InterruptedException as {@link #awaitCancelled()}.
     */
    public boolean awaitStopping(Duration atMost) throws InterruptedException {
        await(nanos(atMost), true);
        return isStopping();
    }

    /** Time until what is left is cancelled, while the worker is being shut down; none before. */
    public Optional<Duration> remaining() {
        return session.remaining();
    }

    private static long nanos(Duration time) {
        return time.compareTo(Duration.ofDays(36_500)) > 0 ? Long.MAX_VALUE : time.toNanos();
    }

    private void await(long nanos, boolean isForStopping) throws InterruptedException {
        long start = System.nanoTime();
        synchronized (monitor) {
            while (cancelReason == null && !(isForStopping && isStopping)) {
                long left = nanos - (System.nanoTime() - start);
                if (left <= 0) {
                    return;
                }
                try {
                    TimeUnit.NANOSECONDS.timedWait(monitor, Math.min(left, TimeUnit.DAYS.toNanos(1)));
                } catch (InterruptedException interrupted) {
                    // With a cancel it has told its story: the reason is set.
                    if (cancelReason == null) {
                        throw interrupted;
                    }
                }
            }
            if (cancelReason != null && thread == Thread.currentThread()) {
                Thread.interrupted();
            }
        }
    }

    // What the handler says

    /** Tells the backend now that this job is alive. ojs-init does that by itself at its interval. */
    public void heartbeat() {
        session.tell(this, News.HEARTBEAT, Frames.frame("heartbeat", id()));
    }

    /** Says how far it is, from 0.0 to 1.0. At most one a second reaches the backend, the newest wins. */
    public void progress(double fraction) {
        progress(fraction, null, null);
    }

    /** The same, with words for a person. */
    public void progress(double fraction, String message) {
        progress(fraction, message, null);
    }

    /**
     * The same, with words for a person and data; null for none. What is a little outside of 0.0 to 1.0 is moved inside.
     *
     * @throws IllegalArgumentException if the fraction is no number.
     * @throws JsonException if the data is no JSON.
     */
    public void progress(double fraction, String message, Object data) {
        if (Double.isNaN(fraction)) {
            throw new IllegalArgumentException("progress is a number from 0 to 1, not NaN");
        }
        double inside = Math.max(0, Math.min(1, fraction));
        String text = message == null ? null : Failures.clean(message, Failures.MAX_MESSAGE_CHARS);
        String more = data == null ? "" : ",\"data\":" + Json.write(data);
        session.tell(this, News.PROGRESS, Frames.withRaw("progress", id(), more, "progress", inside, "message", text));
    }

    /**
     * Saves where the next attempt shall go on; it gets it as {@link #lastCheckpoint()}. Once this returns, ojs-init will
     * deliver it to the backend even if this process crashes.
     *
     * @throws JsonException if the state is no JSON, or nested deeper than 94: it must fit in beside steps and positions.
     * @throws OjsException.Stalled if ojs-init did not read for 10 s: it is not saved, and sent once more in front of an answer
     *     after which the job may come again.
     * @throws OjsException.ConnectionLost if ojs-init is gone.
     */
    public void checkpoint(Object state) {
        resume.checkpoint(state);
    }

    /** Puts this JSON on its way, in front of all that is said later. */
    Saving sendCheckpoint(String state) {
        byte[] frame = Frames.withRaw("checkpoint", id(), ",\"state\":" + state);
        return new Saving(session.transport(), session.tell(this, News.CHECKPOINT, frame), frame);
    }

    // Work that goes on where it stopped

    /** A part of a handler that has no result. */
    @FunctionalInterface
    public interface Action {
        /** @throws Exception as {@link Handler#handle}. */
        void run() throws Exception;
    }

    /**
     * Rows one after the other, from the one on at which an earlier attempt stopped: {@code for (Row row : job.iterate(rows))}.
     * Positions are counted, so the rows must come in the same order each time. The position is saved every 5 s and before
     * the job is given back; when a shutdown leaves no time for another row, the loop ends the handler with a
     * {@link Release}. One loop outside of steps, and one in each step.
     *
     * @param rows all of them; {@code stream::iterator} for a stream.
     * @return the rows that are left, for one loop.
     * @throws StepsChanged if the positions were keys before.
     */
    public <T> Iterable<T> iterate(Iterable<T> rows) {
        return new Loop<T>(resume, null).over(rows);
    }

    /**
     * The same by a key: rows are skipped up to and with the one that was finished last.
     *
     * @param key the key of a row, a JSON value that is not null: its id.
     * @throws StepsChanged at the end of the rows, if that key did not come.
     */
    public <T> Iterable<T> iterate(Iterable<T> rows, Function<? super T, ?> key) {
        return new Loop<T>(resume, Objects.requireNonNull(key, "key")).over(rows);
    }

    /** Gives rows from a position on. */
    @FunctionalInterface
    public interface Rows<T> {
        /**
         * @param position the key, or the number from 0, of the row that was finished last; null for all rows.
         * @return the rows behind it.
         * @throws Exception as {@link Handler#handle}.
         */
        Iterable<? extends T> behind(Object position) throws Exception;
    }

    /**
     * The same with rows that are asked for from the position on: {@code WHERE id > ? ORDER BY id}.
     *
     * @throws Exception what {@code rows} throws.
     */
    public <T> Iterable<T> iterateFrom(Rows<T> rows, Function<? super T, ?> key) throws Exception {
        Loop<T> loop = new Loop<>(resume, Objects.requireNonNull(key, "key"));
        return loop.overRest(rows.behind(loop.start()));
    }

    /**
     * The same with positions that are counted.
     *
     * @throws Exception what {@code rows} throws.
     */
    public <T> Iterable<T> iterateFrom(Rows<T> rows) throws Exception {
        Loop<T> loop = new Loop<>(resume, null);
        return loop.overRest(rows.behind(loop.start()));
    }

    /**
     * A part of the job that is done once: a finished step is a checkpoint, and another attempt does not run it again. Steps
     * have names of their own and come in the same order in each attempt. When a shutdown leaves no time for it, the step
     * ends the handler with a {@link Release} before it begins. A step that fails is the last one, but it may be called again.
     *
     * @param name how it is called, in the checkpoint and in errors.
     * @param body what it does; its result is JSON, and small: all results, positions and the state have 64 KiB.
     * @return the result as JSON, now or from the attempt that finished it.
     * @throws StepsChanged if earlier attempts finished other steps, or in another order.
     * @throws CheckpointTooLarge if there is more to keep than 64 KiB.
     * @throws Exception what the body throws; the step is not finished then.
     */
    public Object step(String name, Callable<?> body) throws Exception {
        return resume.step(name, body);
    }

    /**
     * The same with a result of this type: see {@link Json#convert}.
     *
     * @throws Exception as {@link #step(String, Callable)}.
     */
    public <T> T step(String name, Class<T> type, Callable<? extends T> body) throws Exception {
        return Json.convert(resume.step(name, body), type);
    }

    /**
     * The same without a result.
     *
     * @throws Exception as {@link #step(String, Callable)}.
     */
    public void step(String name, Action body) throws Exception {
        resume.step(name, () -> {
            body.run();
            return null;
        });
    }

    @Override
    public String toString() {
        return "job " + id() + " " + type();
    }

    // For the session

    /** On the thread that is going to work on it. Even after its timeout it is given back: it was not processed. */
    void begin() {
        synchronized (monitor) {
            thread = Thread.currentThread();
            if (cancelReason != null) {
                thread = null;
                throw new Release(cancelReason);
            }
            hasBegun = true;
        }
    }

    boolean hasBegun() {
        return hasBegun;
    }

    /** Before a middleware calls what is inside of it: see {@link Resume#mark}. */
    Runnable mark() {
        return resume.mark();
    }

    /**
     * How its handler ended, whatever became of the error on its way: in its own words; else as its steps and rows were
     * ended, even if it has caught that and returned; else with the error, null for none.
     */
    Throwable endOf(Throwable error) {
        Throwable said = Failures.ownWords(error);
        Throwable ended = resume.ended();
        boolean isOnItsWay = ended != null && Failures.causes(error).contains(ended);
        if (ended == null || (said != null && !isOnItsWay)) {
            return said != null ? said : error;
        }
        if (error != null && !isOnItsWay && !Failures.isGivenUp(error)) {
            // It may be a mistake, and must not vanish.
            Session.LOG.log(Level.WARNING, "job " + Failures.oneLine(id()) + " (" + Failures.oneLine(type())
                    + "): its handler was ended, and the error that it threw then does not count", error);
        }
        return ended;
    }

    /** What of it is worth saving after this end is sent in front of the answer. */
    void flush(Throwable error) {
        boolean isOver = error instanceof JobFailure failure && !failure.isRetryable();
        if (error == null || isOver || "cancelled".equals(cancelReason) || "lost".equals(cancelReason)) {
            return;
        }
        try {
            resume.flush();
        } catch (RuntimeException | Error unsaved) { // whatever it is, the job needs its answer
            Session.LOG.warning(
                    "job " + Failures.oneLine(id()) + ": its position is not saved: " + Failures.oneLine(unsaved.getMessage()));
        }
    }

    /** No interrupt of ours comes after this, and none is left. */
    void end() {
        synchronized (monitor) {
            thread = null;
            Thread.interrupted();
        }
    }

    /** Returns whether that is new. */
    boolean cancel(String reason) {
        synchronized (monitor) {
            if (cancelReason != null) {
                return false;
            }
            cancelReason = reason;
            if (thread != null && session.worker().options().interrupts) {
                thread.interrupt();
            }
            monitor.notifyAll();
            return true;
        }
    }

    void noticeStopping() {
        synchronized (monitor) {
            isStopping = true;
            monitor.notifyAll();
        }
    }
}
