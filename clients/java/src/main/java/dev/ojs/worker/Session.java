package dev.ojs.worker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.logging.Level;

/** The protocol: what is held, what comes in, what goes out. The same over the socket and in tests of handlers. */
final class Session {
    static final Log LOG = new Log("dev.ojs.worker");
    /** How long a frame may wait for ojs-init to read. */
    static final long WRITE_TIMEOUT_MILLIS = 10_000;
    /** How long to wait, after we said on our own that we take no more jobs, for one that was on its way. */
    static final long SETTLE_MILLIS = 250;
    private static final int REMEMBERED_ANSWERS = 1024;
    /** Made early: there is no memory for it any more when it is thrown. */
    static final OjsException NO_MEMORY =
            new OjsException("the worker cannot go on, or cannot answer a job: most likely there is no memory left");

    /** Set when the worker cannot go on, as by a frame that says so: the loop ends with it. */
    volatile OjsException fatal;
    volatile boolean isGreeted;
    volatile String workerId;
    volatile int concurrency;
    volatile int maxFrame = Frames.DEFAULT_MAX_FRAME;

    private final Worker worker;
    private final Transport transport;
    private final Consumer<Runnable> threads;
    private final Level lifecycleLevel;
    private final Object lock = new Object();
    private final Map<String, Job> held = new LinkedHashMap<>();
    private final Map<String, String> answers = new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, String> eldest) {
            return size() > REMEMBERED_ANSWERS;
        }
    };
    private final Inbox inbox;
    private volatile String state = "running";
    private volatile boolean isStopping;
    private volatile Long deadlineNanos;
    private Outgoing lastReady;

    /**
     * @param threads where handlers run.
     * @param lifecycleLevel at which the states are logged that ojs-init tells.
     */
    Session(Worker worker, Transport transport, Consumer<Runnable> threads, Level lifecycleLevel) {
        this.lifecycleLevel = lifecycleLevel;
        this.worker = worker;
        this.transport = transport;
        this.threads = threads;
        this.inbox = new Inbox(this);
    }

    Worker worker() {
        return worker;
    }

    Transport transport() {
        return transport;
    }

    // The worker's state

    String state() {
        return state;
    }

    /** Whether no more jobs are taken. */
    boolean isEnding() {
        return isStopping || isTerminating();
    }

    boolean isTerminating() {
        return state.equals("terminate");
    }

    /** Time until the stop phase, when what is not finished is cut off; none while nothing shuts down. */
    Optional<Duration> remaining() {
        Long deadline = deadlineNanos;
        return deadline == null
                ? Optional.empty()
                : Optional.of(Duration.ofNanos(Math.max(0, deadline - System.nanoTime())));
    }

    void lifecycle(String newState, String reason, Number remainingMillis) {
        boolean isKnown = newState.equals("running") || newState.equals("quiet") || newState.equals("terminate");
        if (!isKnown) {
            throw new JsonException("no such state");
        }
        if (isTerminating() && !newState.equals("terminate")) {
            return;
        }
        if (!newState.equals(state)) {
            LOG.log(lifecycleLevel, newState + " (" + Failures.oneLine(reason == null ? "at start" : reason) + ")");
        }
        if (remainingMillis != null) {
            deadlineNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(remainingMillis.longValue());
        }
        state = newState;
        if (isTerminating()) {
            heldJobs().forEach(Job::noticeStopping);
        }
    }

    /** On our own: no more jobs, please. Returns the frame that says so, null if none needs to. */
    Outgoing beginStop() {
        isStopping = true;
        return isGreeted && !isTerminating() ? sendReady(0) : null;
    }

    Outgoing sendReady(int jobs) {
        List<String> types = worker.types();
        byte[] frame = Frames.frame("ready", null, "protocol", Frames.PROTOCOL, "concurrency", jobs, "types", types,
                "ping", true, "ok", false, "client", Frames.client());
        if (frame.length - 1 > maxFrame) {
            throw new OjsException.Protocol("the names of " + types.size() + " job types do not fit into a frame of "
                    + maxFrame + " bytes: use fewer, or one handler for \"*\"");
        }
        lastReady = transport.send(frame, false);
        return lastReady;
    }

    // What comes in

    void onLine(byte[] line) {
        inbox.onLine(line);
    }

    /** Whether a job that comes is held already: then it is its handler's, and gets that one's answer alone. */
    boolean isHeldAlready(String jobId) {
        if (!holds(jobId)) {
            return false;
        }
        LOG.warning("job " + Failures.oneLine(jobId) + " came again while its handler runs, which goes on");
        return true;
    }

    /** A job that was delivered, and is not held. */
    void take(Job job) {
        Handling handling = new Handling(this, job); // now: it makes the answer for when none can be made any more
        synchronized (lock) {
            held.put(job.id(), job);
            answers.remove(job.id());
        }
        if (isTerminating()) {
            job.noticeStopping();
        }
        try {
            threads.accept(handling);
        } catch (RuntimeException | OutOfMemoryError none) {
            LOG.log(Level.SEVERE, "no thread for job " + Failures.oneLine(job.id()), none);
            answer(job, Answer.of(job, null, new Release("no thread can be started"), maxFrame));
        }
    }

    List<Job> heldJobs() {
        synchronized (lock) {
            return new ArrayList<>(held.values());
        }
    }

    boolean holds(String jobId) {
        synchronized (lock) {
            return held.containsKey(jobId);
        }
    }

    boolean holdsNothing() {
        synchronized (lock) {
            return held.isEmpty();
        }
    }

    /** Waits until no job is held; false if that takes longer. */
    boolean awaitNothingHeld(long millis) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        synchronized (lock) {
            while (!held.isEmpty()) {
                long left = end - System.nanoTime();
                if (left <= 0) {
                    return false;
                }
                TimeUnit.NANOSECONDS.timedWait(lock, Math.max(left, 1));
            }
        }
        return true;
    }

    void cancel(String jobId, String reason) {
        Job job;
        synchronized (lock) {
            job = held.get(jobId);
        }
        if (job != null && job.cancel(reason)) {
            LOG.info("job " + Failures.oneLine(jobId) + " is cancelled: " + Failures.oneLine(reason));
        }
    }

    /** Cancels every job that is held, and says how many those are. */
    int cancelAll(String reason) {
        List<Job> jobs = heldJobs();
        jobs.forEach(job -> cancel(job.id(), reason));
        return jobs.size();
    }

    /** What was answered for a job that ojs-init speaks about, and forgets that; null if nothing, or not known any more. */
    String forgetAnswer(String jobId, String only) {
        synchronized (lock) {
            String answer = answers.get(jobId);
            if (answer != null && (only == null || only.equals(answer))) {
                answers.remove(jobId);
            }
            return answer;
        }
    }

    // What goes out

    /** Sends a progress, a checkpoint or a heartbeat; a newer one takes the place of one that waits. */
    Outgoing tell(Job job, Job.News kind, byte[] frame) {
        if (frame.length - 1 > maxFrame) {
            throw new OjsException((frame.length - 1) + " bytes are more than ojs-init takes at once (" + maxFrame + ")");
        }
        synchronized (lock) {
            if (held.get(job.id()) != job) {
                throw new OjsException("job " + job.id() + " was answered already");
            }
            Outgoing waiting = job.waiting.get(kind);
            if (waiting != null && transport.isFull() && transport.replace(waiting, frame)) {
                return waiting;
            }
            Outgoing item = transport.send(frame, false);
            job.waiting.put(kind, item);
            return item;
        }
    }

    /** A `fail` for a job that no handler gets. */
    void refuse(String jobId, String code, String message, boolean isRetryable) {
        LOG.severe("job " + Failures.oneLine(jobId) + ": " + Failures.oneLine(message));
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("code", code);
        error.put("message", Failures.clean(message, 1000));
        error.put("retryable", isRetryable);
        transport.send(Frames.frame("fail", jobId, "error", error), false);
    }

    /**
     * The one answer that a job gets. The job is held until that is queued; after an error this may be called again, and
     * then sends no second one.
     */
    void answer(Job job, Answer answer) {
        boolean isLost = false;
        synchronized (lock) {
            if (held.get(job.id()) == job) {
                Outgoing progress = job.waiting.get(Job.News.PROGRESS);
                if (progress != null && transport.isFull()) {
                    transport.withdraw(progress, progress.data);
                }
                try {
                    transport.send(answer.frame(), false);
                } catch (OjsException.ConnectionLost lost) {
                    isLost = true; // it is not logged under the lock: a logger may do anything
                }
                held.remove(job.id());
                lock.notifyAll();
                answers.put(job.id(), answer.kind());
            }
        }
        if (isLost) {
            LOG.fine("nobody takes the answer for job " + Failures.oneLine(job.id()));
        }
        transport.wake();
    }

    /** No answer can be given for a job: it would be held for ever, so the worker ends. */
    void giveUp() {
        fatal = NO_MEMORY;
        transport.wake();
    }
}
