package dev.ojs.worker;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Function;

/** One loop over rows that goes on where an earlier attempt stopped. A row is finished when the next one is asked for. */
final class Loop<T> implements Iterable<T>, Iterator<T> {
    private static final int REMEMBERED_ROWS = 10;
    private static final int MAX_SHOWN_CHARS = 100;

    private final Resume resume;
    private final String name;
    private final Function<? super T, ?> key;
    private final Deque<Long> took = new ArrayDeque<>();
    /** The last row that earlier attempts finished; null if there is none. */
    private final Object start;
    private Iterator<? extends T> source;
    private boolean isSkipping;
    private long index = -1;

    private T row;
    private Object rowKey;
    private boolean isBegun;
    private boolean isReady;
    private boolean isHandedOut;
    private boolean isOver;
    private long handedOutAt;

    /** Begins it; {@link #over} says which rows there are. */
    Loop(Resume resume, Function<? super T, ?> key) {
        this.resume = resume;
        this.key = key;
        this.name = resume.beginLoop();
        Object saved = resume.position(name);
        // A backend may spell an index 1.0.
        boolean isIndex = key == null && saved instanceof Number number && number.doubleValue() == number.longValue();
        this.start = isIndex ? (Object) ((Number) saved).longValue() : saved;
        if (key == null && start != null && !(start instanceof Long)) {
            throw resume.changed(name, "the rows of this job had keys before (" + shown() + "), and now they have none");
        }
    }

    Object start() {
        return start;
    }

    /** All rows: those that are finished are skipped. */
    Loop<T> over(Iterable<? extends T> rows) {
        source = rows.iterator();
        isSkipping = start != null;
        return this;
    }

    /** The rows behind {@link #start}: none is skipped. */
    Loop<T> overRest(Iterable<? extends T> rows) {
        source = rows.iterator();
        index = key == null && start != null ? (Long) start : -1;
        return this;
    }

    private String shown() {
        return Failures.clean(JsonWriter.writeBack(start, Json.MAX_VALUE_DEPTH), MAX_SHOWN_CHARS);
    }

    @Override
    public Iterator<T> iterator() {
        if (isBegun) {
            throw new IllegalStateException("these rows were iterated already: call job.iterate once for each loop");
        }
        isBegun = true;
        return this;
    }

    @Override
    public boolean hasNext() {
        if (isReady || isOver) {
            return isReady;
        }
        if (isHandedOut) {
            finishRow();
        }
        while (source.hasNext()) {
            T next = source.next();
            if (isSkipping) {
                skip(next);
                continue;
            }
            resume.mayBegin(name, took.stream().mapToLong(Long::longValue).max().orElse(0));
            row = next;
            // Now, and not when it is done: a row without a key is not begun, and one that the handler changes keeps its own.
            rowKey = key == null ? null : position(next);
            isReady = true;
            return true;
        }
        isOver = true;
        if (isSkipping && key != null) {
            throw resume.changed(name, "the row with the key " + shown()
                    + ", the last one that an earlier attempt finished, does not come any more");
        }
        return false;
    }

    @Override
    public T next() {
        if (!hasNext()) {
            throw new NoSuchElementException("no more rows");
        }
        isReady = false;
        isHandedOut = true;
        handedOutAt = System.nanoTime();
        return row;
    }

    private void skip(T next) {
        if (key == null) {
            index++;
            isSkipping = index < (Long) start;
        } else {
            isSkipping = !Json.isSame(position(next), start);
        }
        resume.mayBegin(name, 0);
    }

    private void finishRow() {
        isHandedOut = false;
        took.add(System.nanoTime() - handedOutAt);
        if (took.size() > REMEMBERED_ROWS) {
            took.remove();
        }
        index++;
        row = null;
        resume.move(name, key == null ? Long.valueOf(index) : rowKey);
    }

    /** The key of a row as it is read back from a checkpoint. */
    private Object position(T of) {
        Object position = key.apply(of);
        if (position == null) {
            throw new IllegalArgumentException("the key of a row is null: it cannot be told from no position");
        }
        boolean isPlain = position instanceof String || position instanceof Long;
        return isPlain ? position : Json.parse(JsonWriter.write(position, Json.MAX_KEPT_DEPTH));
    }
}
