package tests;

import dev.ojs.worker.Json;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.BooleanSupplier;

/** A tiny test runner: each test is a sentence and a body. */
final class Check {
    private static final long PATIENCE_MILLIS = 20_000;
    private static final List<String> FAILED = new ArrayList<>();
    private static int passed;

    private Check() {}

    /** The body of a test. */
    @FunctionalInterface
    interface Body {
        void run() throws Throwable;
    }

    static void that(String sentence, Body body) {
        try {
            body.run();
            passed++;
            System.out.println("ok " + sentence);
        } catch (Throwable failed) {
            FAILED.add(sentence);
            System.out.println("FAIL " + sentence);
            failed.printStackTrace(System.out);
        }
    }

    static void equal(Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    /** Equal as JSON text, names in any order. */
    static void json(String expected, Object found) {
        equal(Json.parse(expected), Json.parse(Json.write(found)));
    }

    static void holds(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    static void contains(String part, String text) {
        holds(text != null && text.contains(part), "expected \"" + part + "\" in \"" + text + "\"");
    }

    static <T extends Throwable> T fails(Class<T> type, Body body) {
        try {
            body.run();
        } catch (Throwable thrown) {
            if (type.isInstance(thrown)) {
                return type.cast(thrown);
            }
            throw new AssertionError("expected a " + type.getSimpleName(), thrown);
        }
        throw new AssertionError("expected a " + type.getSimpleName() + ", nothing was thrown");
    }

    static void eventually(String what, BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + PATIENCE_MILLIS * 1_000_000;
        while (!condition.getAsBoolean()) {
            holds(System.nanoTime() < end, "never: " + what);
            Thread.sleep(2);
        }
    }

    /** The status that the tests end with. */
    static int summary() {
        System.out.println(passed + " passed, " + FAILED.size() + " failed");
        FAILED.forEach(sentence -> System.out.println("FAILED: " + sentence));
        return FAILED.isEmpty() && passed > 0 ? 0 : 1;
    }
}
