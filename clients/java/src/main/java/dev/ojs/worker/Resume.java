package dev.ojs.worker;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;

/**
 * What of a job outlives an attempt: its finished steps, the positions of its loops over rows, and the program's own
 * state. Saved in the same form by the clients of all languages.
 */
final class Resume {
    /** Least time from one saved position to the next. */
    static final long SAVE_EVERY_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final int MAX_BYTES = 64 * 1024;
    /** Nothing new begins when less than this is left of a shutdown, or less than 1.5 times what it usually takes. */
    private static final long LEAST_NANOS = TimeUnit.MILLISECONDS.toNanos(250);
    private static final String REASON = "resumes at its checkpoint";
    private static final String FORM = "ojs_resume";
    private static final int REMEMBERED_STEPS = 1000;
    private static final int MAX_SHOWN_CHARS = 1000;

    /** How long each step took last in this process, in nanoseconds; the oldest goes when there are too many. */
    private static final Map<String, Long> TOOK = new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Long> eldest) {
            return size() > REMEMBERED_STEPS;
        }
    };

    private final Job job;
    private final Map<String, Object> steps = new LinkedHashMap<>();
    private final Map<String, Object> cursors = new LinkedHashMap<>();
    /** How many of the steps an earlier attempt has finished, by their names. */
    private final List<String> known = new ArrayList<>();
    private final List<String> begun = new ArrayList<>();
    private final Set<String> loops = new HashSet<>();
    private final Object saved;
    /** The program's own state, as JSON. */
    private String state;
    private String step = "";
    private boolean isUsed;
    private boolean isDirty;
    private long savedAt = System.nanoTime();
    /** What ended the steps and rows of the handler, and in which step; null as long as nothing did. */
    private RuntimeException ended;
    private String endedIn;
    /** The step that failed, and how: no other one comes after it. */
    private String failedStep;
    private Throwable failure;

    Resume(Job job, Object checkpoint) {
        this.job = job;
        boolean isOurs = checkpoint instanceof Map<?, ?> form && read(form);
        this.saved = isOurs ? ((Map<?, ?>) checkpoint).get("state") : checkpoint;
        this.state = JsonWriter.writeBack(saved, Integer.MAX_VALUE);
        this.isUsed = isOurs;
    }

    /** Takes what an earlier attempt saved; false, and nothing is taken, if it is the program's own. */
    private boolean read(Map<?, ?> form) {
        boolean isOurs = Json.isSame(1L, form.get(FORM)) && form.get("steps") instanceof List
                && form.get("cursors") instanceof Map;
        if (!isOurs) {
            return false;
        }
        for (Object finished : (List<?>) form.get("steps")) {
            if (!(finished instanceof List<?> pair) || pair.size() != 2 || !(pair.get(0) instanceof String name)) {
                steps.clear();
                return false;
            }
            steps.put(name, pair.get(1));
        }
        known.addAll(steps.keySet());
        ((Map<?, ?>) form.get("cursors")).forEach((name, position) -> cursors.put((String) name, position));
        return true;
    }

    /** What an earlier attempt saved of the program's own. What is saved next is kept apart from it. */
    Object saved() {
        return saved;
    }

    /** For the handler, which may change it: what is saved stays as it is. */
    private static Object copy(Object value) {
        boolean isPlain = !(value instanceof Map) && !(value instanceof List);
        return isPlain ? value : Json.parse(JsonWriter.writeBack(value, Json.MAX_VALUE_DEPTH));
    }

    // Saving

    /** Saves this for the program, beside what is there. */
    void checkpoint(Object own) {
        String text = JsonWriter.write(own, Json.MAX_KEPT_DEPTH);
        Saving saving;
        synchronized (this) {
            String before = state;
            state = text;
            boolean isSent = false;
            try {
                saving = send();
                isSent = true;
            } finally {
                if (!isSent) {
                    state = before; // it must not spoil what is saved next
                }
            }
        }
        await(saving);
    }

    /** Puts a checkpoint on its way. */
    private synchronized Saving send() {
        Saving saving = job.sendCheckpoint(isUsed ? form() : state);
        isDirty = false;
        savedAt = System.nanoTime();
        return saving;
    }

    /** What is not written after all is sent once more in front of the answer. */
    private void await(Saving saving) {
        boolean isSaved = false;
        try {
            saving.await();
            isSaved = true;
        } finally {
            if (!isSaved) {
                synchronized (this) {
                    isDirty = true;
                }
            }
        }
    }

    private synchronized String form() {
        List<Object> finished = new ArrayList<>();
        steps.forEach((name, result) -> {
            List<Object> pair = new ArrayList<>();
            pair.add(name);
            pair.add(result);
            finished.add(pair);
        });
        Map<String, Object> form = new LinkedHashMap<>();
        form.put(FORM, 1);
        form.put("steps", finished);
        form.put("cursors", new LinkedHashMap<>(cursors));
        form.put("state", Json.parse(state));
        String text = JsonWriter.writeBack(form, Json.MAX_VALUE_DEPTH);
        int bytes = text.getBytes(StandardCharsets.UTF_8).length;
        if (bytes > MAX_BYTES) {
            throw new CheckpointTooLarge("the results of steps, the positions and the state of this job are " + bytes
                    + " bytes of JSON together, at most " + MAX_BYTES + " are kept: let steps return ids or paths");
        }
        return text;
    }

    /** Before an answer after which the job may come again: saves what is not saved yet, and does not wait for that. */
    synchronized void flush() {
        if (isDirty) {
            send();
        }
    }

    // Steps

    Object step(String name, Callable<?> body) throws Exception {
        boolean isNew = begin(name);
        try {
            if (isNew) {
                run(name, body);
            } else {
                saveAgain(name);
            }
        } catch (Throwable thrown) {
            synchronized (this) {
                failedStep = name;
                failure = thrown;
            }
            throw thrown;
        }
        synchronized (this) {
            return copy(steps.get(name));
        }
    }

    private void run(String name, Callable<?> body) throws Exception {
        long start = System.nanoTime();
        Saving saving;
        try {
            saving = finish(name, body.call());
        } finally {
            synchronized (this) {
                step = "";
            }
        }
        took(name, System.nanoTime() - start);
        await(saving);
    }

    /** Saves a step that is finished, and whose saving has failed. */
    private void saveAgain(String name) {
        Saving saving;
        synchronized (this) {
            if (!name.equals(failedStep)) {
                return;
            }
            saving = send();
        }
        await(saving);
        synchronized (this) {
            failedStep = null;
        }
    }

    /** Whether it has to be done; false if an earlier attempt has finished it. */
    private boolean begin(String name) throws Exception {
        synchronized (this) {
            if (name == null || name.isEmpty()) {
                throw new IllegalArgumentException("a step has a name that is not empty");
            }
            if (ended != null) {
                throw ended;
            }
            if (!step.isEmpty()) {
                throw new IllegalStateException(
                        "step " + name + " begins within step " + step + ": steps come one after the other");
            }
            mayFollowFailure(name);
            if (begun.contains(name)) {
                throw new IllegalStateException("there are two steps " + name + " in this job: each has its own name");
            }
            isUsed = true;
            begun.add(name);
            if (begun.size() <= known.size()) {
                if (!known.get(begun.size() - 1).equals(name)) {
                    throw changed(known);
                }
                return false;
            }
            failedStep = null;
            refuseOtherCursors();
        }
        mayBegin(name, usual(name));
        synchronized (this) {
            step = name;
        }
        return true;
    }

    /** Nothing comes after a step that failed, but for the same one again. */
    private void mayFollowFailure(String name) throws Exception {
        if (failedStep == null) {
            return;
        }
        if (failedStep.equals(name)) {
            begun.remove(begun.size() - 1);
            loops.remove(name);
            return;
        }
        if (failure instanceof Error error) {
            throw error;
        }
        throw (Exception) failure;
    }

    /**
     * Before a middleware calls what is inside of it.
     *
     * @return before it does so again, it lets the steps and loops come once more: those that are finished by then are known.
     */
    synchronized Runnable mark() {
        int count = begun.size();
        Set<String> loopsThen = new HashSet<>(loops);
        String stepThen = step;
        String failedThen = failedStep;
        Throwable failureThen = failure;
        return () -> {
            synchronized (this) {
                begun.subList(count, begun.size()).clear();
                loops.clear();
                loops.addAll(loopsThen);
                step = stepThen;
                failedStep = failedThen;
                failure = failureThen;
                known.clear();
                known.addAll(steps.keySet());
            }
        };
    }

    /** A step in which an earlier attempt stopped has to come before any new one. */
    private void refuseOtherCursors() {
        for (String open : cursors.keySet()) {
            if (!open.isEmpty() && !begun.contains(open)) {
                List<String> before = new ArrayList<>(steps.keySet());
                before.add(open);
                throw changed(before);
            }
        }
    }

    private RuntimeException changed(List<String> before) {
        return changed("", Failures.clean("the steps of this job have changed: an earlier attempt had "
                + String.join(", ", before) + "; this one has " + String.join(", ", begun), MAX_SHOWN_CHARS));
    }

    /** That the steps, or the rows in this step, have changed ends the job. */
    synchronized RuntimeException changed(String where, String message) {
        return endBy(where, new StepsChanged(message));
    }

    /** Ends the steps and rows: by this, or by what has done so already. */
    private synchronized RuntimeException endBy(String where, RuntimeException end) {
        ended = ended == null ? end : ended;
        endedIn = where;
        return ended;
    }

    private synchronized Saving finish(String name, Object result) {
        if (name.equals(endedIn)) {
            throw ended; // the body caught it, and the other rows are not done
        }
        String text;
        try {
            text = JsonWriter.write(result, Json.MAX_KEPT_DEPTH);
        } catch (RuntimeException | StackOverflowError unfit) {
            throw new Discard("the handler's result is not JSON: of step " + name + ": " + Failures.message(unfit))
                    .type("InvalidResult");
        }
        // Read again, so that a step gives the same in each attempt.
        steps.put(name, Json.parse(text));
        boolean hasPosition = cursors.containsKey(name);
        Object position = cursors.remove(name);
        isDirty = true;
        boolean isKept = false;
        try {
            Saving saving = send();
            isKept = true;
            known.add(name); // whoever calls it again after a failed saving gets its result
            return saving;
        } finally {
            if (!isKept) {
                steps.remove(name); // it is not finished: its rows keep their position
                if (hasPosition) {
                    cursors.put(name, position);
                }
            }
        }
    }

    private String key(String name) {
        return job.type() + "\n" + name;
    }

    private long usual(String name) {
        synchronized (TOOK) {
            return TOOK.getOrDefault(key(name), 0L);
        }
    }

    private void took(String name, long nanos) {
        synchronized (TOOK) {
            TOOK.remove(key(name));
            TOOK.put(key(name), nanos);
        }
    }

    // Rows

    /** Begins the one loop of this step, and returns the name of the step. */
    synchronized String beginLoop() {
        if (!loops.add(step)) {
            throw new IllegalStateException("there are two loops of job.iterate "
                    + (step.isEmpty() ? "outside of a step" : "in step " + step) + ": give each a job.step of its own");
        }
        isUsed = true;
        return step;
    }

    /** The position of the last row of this loop that is finished; null if there is none. */
    synchronized Object position(String loop) {
        return copy(cursors.get(loop));
    }

    /** A row is finished. */
    void move(String loop, Object position) {
        Saving saving;
        synchronized (this) {
            cursors.put(loop, position);
            isDirty = true;
            if (System.nanoTime() - savedAt < SAVE_EVERY_NANOS) {
                return;
            }
            saving = send();
        }
        await(saving);
    }

    // Stopping

    /**
     * Before each row and step: ends the handler when what comes next would be cut off. What is not saved yet is saved
     * before the job's answer.
     */
    void mayBegin(String where, long usualNanos) {
        // A handler that caught it may go on, but not with something shorter: what comes before that is not done.
        RuntimeException end = ended() == null ? endBefore(usualNanos) : ended();
        if (end != null) {
            throw endBy(where, end);
        }
    }

    /** What ended the handler: it may have caught that, and its work is not finished all the same. */
    synchronized RuntimeException ended() {
        return ended;
    }

    /** What ends the handler here; null if it may go on. */
    private RuntimeException endBefore(long usualNanos) {
        String reason = job.cancelReason().orElse("");
        switch (reason) {
            case "":
                Duration left = job.isStopping() ? job.remaining().orElse(null) : null;
                boolean isCutOff = left != null && left.toNanos() < Math.max(usualNanos + usualNanos / 2, LEAST_NANOS);
                return isCutOff ? new Release(REASON) : null;
            case "timeout", "cancelled", "lost":
                return new Cancelled(reason);
            default: // shutdown, and what a later version has for it
                return new Release(REASON);
        }
    }
}
