package dev.ojs.worker;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;

/**
 * What of a job outlives an attempt: its finished steps, the positions of its loops, and the
 * handler's own state. The clients of all languages save it in the same form.
 */
final class Resume {
    private static final long SAVE_EVERY_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final int MAX_BYTES = 64 * 1024;
    private static final int REMEMBERED_ROWS = 10;
    private static final String FORM = "ojs_resume";

    private final ObjectMapper mapper;
    private final Consumer<JsonNode> save;
    private final LongConsumer mayBegin;
    /** By the place of the step, because a program may make any number of names. */
    private final Map<Integer, Long> stepNanos;
    private final Map<String, JsonNode> steps = new LinkedHashMap<>();
    private final Map<String, JsonNode> cursors = new LinkedHashMap<>();
    private final List<String> finishedBefore;
    private final List<String> begun = new ArrayList<>();
    private final Set<String> loops = new HashSet<>();
    /** The state that the handler of an earlier attempt saved. */
    final JsonNode saved;
    private JsonNode state;
    private String step = "";
    private boolean isUsed;
    private boolean isDirty;
    private long savedAt = System.nanoTime();

    /**
     * @param checkpoint what an earlier attempt saved.
     * @param save sends a checkpoint, and returns when ojs-init gets it even if this process
     *     crashes.
     * @param mayBegin throws if what usually takes so many nanoseconds must not begin any more.
     * @param stepNanos how long each step took last in this process.
     */
    Resume(ObjectMapper mapper, JsonNode checkpoint, Consumer<JsonNode> save, LongConsumer mayBegin,
            Map<Integer, Long> stepNanos) {
        this.mapper = mapper;
        this.save = save;
        this.mayBegin = mayBegin;
        this.stepNanos = stepNanos;
        isUsed = checkpoint.path(FORM).asInt() == 1;
        checkpoint.path(isUsed ? "steps" : "").forEach(pair -> steps.put(pair.path(0).asText(), pair.path(1)));
        checkpoint.path(isUsed ? "cursors" : "").fields().forEachRemaining(at -> cursors.put(at.getKey(), at.getValue()));
        finishedBefore = List.copyOf(steps.keySet());
        saved = isUsed ? checkpoint.path("state") : checkpoint;
        state = saved;
    }

    /** Saves the handler's own state, beside steps and positions. */
    synchronized void checkpoint(Object own) {
        state = mapper.valueToTree(own);
        send();
    }

    /** Saves what is not saved yet. */
    synchronized void flush() {
        if (isDirty) { send(); }
    }

    private void send() {
        save.accept(isUsed ? form() : state);
        isDirty = false;
        savedAt = System.nanoTime();
    }

    private JsonNode form() {
        ObjectNode form = mapper.createObjectNode().put(FORM, 1);
        ArrayNode finished = form.putArray("steps");
        steps.forEach((name, result) -> finished.addArray().add(name).add(result));
        form.putObject("cursors").setAll(cursors);
        form.set("state", state);
        int bytes = form.toString().getBytes(StandardCharsets.UTF_8).length;
        if (bytes > MAX_BYTES) {
            throw new CheckpointTooLarge("steps, positions and state have " + bytes + " bytes of JSON, at most " + MAX_BYTES
                    + " are kept: let steps return ids or paths");
        }
        return form;
    }

    // Steps

    JsonNode step(String name, Callable<?> body) throws Exception {
        if (!begin(name)) { return steps.get(name); }
        long start = System.nanoTime();
        try {
            JsonNode result = mapper.valueToTree(body.call());
            finish(name, result);
            // Now, and not with the next step: the process may die before that.
            flush();
            stepNanos.put(begun.size(), System.nanoTime() - start);
            return result;
        } finally {
            step = "";
        }
    }

    /** False if an earlier attempt has finished this step. */
    private synchronized boolean begin(String name) {
        if (!step.isEmpty() || begun.contains(name) || name.isEmpty()) {
            throw new IllegalStateException("step " + name + " begins a second time, or within step " + step);
        }
        isUsed = true;
        begun.add(name);
        if (begun.size() <= finishedBefore.size()) {
            requireNext(finishedBefore.get(begun.size() - 1), name);
            return false;
        }
        cursors.keySet().stream().filter(open -> !open.isEmpty() && !begun.contains(open))
                .forEach(open -> requireNext(open, name));
        mayBegin.accept(stepNanos.getOrDefault(begun.size(), 0L));
        flush();
        step = name;
        return true;
    }

    private void requireNext(String expected, String name) {
        if (!expected.equals(name)) {
            throw new StepsChanged("step " + expected + " is due, as in an earlier attempt, not step " + name);
        }
    }

    private synchronized void finish(String name, JsonNode result) {
        steps.put(name, result);
        cursors.remove(name);
        isDirty = true;
    }

    // Loops

    /** The rows that no earlier attempt has finished; without a key rows are counted. */
    synchronized <T> Iterator<T> loop(Iterator<T> rows, Function<? super T, ?> key) {
        if (!loops.add(step)) {
            throw new IllegalStateException("there are two job.iterate: give each a job.step of its own");
        }
        isUsed = true;
        return new Loop<>(rows, key);
    }

    /** Moves the position of a loop behind a row, and saves it once in a while. */
    private synchronized void move(String loop, JsonNode position) {
        cursors.put(loop, position);
        isDirty = true;
        if (System.nanoTime() - savedAt >= SAVE_EVERY_NANOS) { send(); }
    }

    /** A row is finished when the loop asks for the next one. */
    private final class Loop<T> implements Iterator<T> {
        private final String name = step;
        private final JsonNode start = cursors.get(step);
        private final Iterator<T> rows;
        private final Function<? super T, ?> key;
        private final Deque<Long> rowNanos = new ArrayDeque<>();
        private boolean isSkipping = start != null;
        private long index = -1;
        private T next;
        private JsonNode nextPosition;
        /** The row that the loop works on; null if there is none. */
        private JsonNode currentPosition;
        private long currentSince;

        Loop(Iterator<T> rows, Function<? super T, ?> key) {
            this.rows = rows;
            this.key = key;
        }

        @Override
        public boolean hasNext() {
            if (nextPosition != null) { return true; }
            finishRow();
            while (rows.hasNext()) {
                next = rows.next();
                index++;
                // Before the row is handed out, because the handler may change it.
                JsonNode position = key == null ? LongNode.valueOf(index) : mapper.valueToTree(key.apply(next));
                mayBegin.accept(isSkipping ? 0 : rowNanos.stream().mapToLong(Long::longValue).max().orElse(0));
                if (!isSkipping) {
                    nextPosition = position;
                    return true;
                }
                isSkipping = !isSame(position, start);
            }
            if (isSkipping && (key != null || !start.isNumber())) {
                throw new StepsChanged("the row that an earlier attempt finished last does not come any more");
            }
            return false;
        }

        @Override
        public T next() {
            if (!hasNext()) { throw new NoSuchElementException("no more rows"); }
            currentPosition = nextPosition;
            nextPosition = null;
            currentSince = System.nanoTime();
            return next;
        }

        private void finishRow() {
            if (currentPosition != null) {
                rowNanos.add(System.nanoTime() - currentSince);
                if (rowNanos.size() > REMEMBERED_ROWS) { rowNanos.remove(); }
                move(name, currentPosition);
                currentPosition = null;
            }
        }
    }

    /** Whether two keys are equal, however a backend spells their numbers. */
    private static boolean isSame(JsonNode one, JsonNode other) {
        return one.equals((a, b) -> a.isNumber() && b.isNumber()
                ? a.decimalValue().compareTo(b.decimalValue()) : a.equals(b) ? 0 : 1, other);
    }
}
