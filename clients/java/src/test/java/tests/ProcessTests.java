package tests;

import dev.ojs.worker.OjsException;
import dev.ojs.worker.Worker;
import java.io.File;
import java.io.IOException;
import java.util.concurrent.TimeUnit;

/** How a process with a worker ends. */
final class ProcessTests {
    private static final String TERMINATE =
            "{\"type\":\"lifecycle\",\"state\":\"terminate\",\"reason\":\"sigterm\",\"remaining_ms\":5000}";
    /** A busy machine is slow in most of them; with the wait that is looked for, none is quick enough. */
    private static final int TRIES = 30;
    /** How long a JVM that ends waits for a thread in the kernel. */
    private static final long JVM_WAITS_MILLIS = 300;

    private ProcessTests() {}

    /** A program with a worker; what it does beside is the argument. */
    public static final class Program {
        private static volatile boolean isFull;
        private static Object[] filled;

        private Program() {}

        /** Runs it. */
        public static void main(String[] args) throws InterruptedException {
            switch (args[0]) {
                case "stays" -> new Thread(Program::sleep).start();
                case "hooks" -> Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook")));
                default -> { }
            }
            try {
                new Worker().job("hang", job -> {
                    System.out.println("hangs");
                    while (true) {
                        sleep();
                    }
                }).job("fill", job -> fill()).job("waits", job -> {
                    while (!isFull) {
                        Thread.sleep(1);
                    }
                    return null;
                }).run();
            } catch (OjsException.NotUnderOjsInit nobody) {
                System.out.println("nobody");
                sleep();
            }
        }

        /** Takes all memory, and does not give it back. */
        private static Object fill() {
            int size = 1 << 18;
            while (!isFull) {
                try {
                    Object[] more = new Object[size];
                    more[0] = filled;
                    filled = more;
                } catch (OutOfMemoryError full) {
                    isFull = size == 1;
                    size = Math.max(1, size / 2);
                }
            }
            while (true) {
                sleep();
            }
        }

        private static void sleep() {
            try {
                Thread.sleep(60_000);
            } catch (InterruptedException cancelled) {
                // It hangs.
            }
        }
    }

    private static Process start(String socket, String what) throws IOException {
        String java = System.getProperty("java.home") + File.separator + "bin" + File.separator + "java";
        ProcessBuilder builder = new ProcessBuilder(java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx64m",
                "-XX:-CreateCoredumpOnCrash", "-XX:ErrorFile=/dev/null", "-cp",
                System.getProperty("java.class.path"), Program.class.getName(), what);
        builder.environment().put("OJS_SOCKET", socket);
        return builder.redirectError(ProcessBuilder.Redirect.DISCARD).start();
    }

    private static int status(Process process) throws InterruptedException {
        return status(process, 20);
    }

    private static int status(Process process, long seconds) throws InterruptedException {
        if (!process.waitFor(seconds, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new AssertionError("the process does not end");
        }
        return process.exitValue();
    }

    static void run() {
        Check.that("a worker that is told to end is gone before a JVM has waited for threads in the kernel", () -> {
            long least = Long.MAX_VALUE;
            for (int i = 0; i < TRIES && least >= JVM_WAITS_MILLIS; i++) {
                try (FakeInit init = new FakeInit()) {
                    Process process = start(init.path(), "");
                    init.greet();
                    long start = System.nanoTime();
                    init.send(TERMINATE);
                    Check.equal(0, status(process));
                    least = Math.min(least, TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start));
                }
            }
            Check.holds(least < JVM_WAITS_MILLIS, "at best it took " + least + " ms");
        });
        Check.that("a program that a thread of its own keeps alive ends with 0 after SIGTERM", () -> {
            try (FakeInit init = new FakeInit()) {
                Process process = start(init.path(), "stays");
                init.greet();
                init.send(TERMINATE);
                process.toHandle().destroy();
                Check.equal(0, status(process));
            }
        });
        Check.that("SIGTERM with a handler that hangs ends the process with 143, with its shutdown hooks", () -> {
            try (FakeInit init = new FakeInit()) {
                Process process = start(init.path(), "hooks");
                init.greet();
                init.job("1", "hang", "[]");
                Check.equal("hangs", process.inputReader().readLine());
                process.toHandle().destroy();
                Check.equal("hook", process.inputReader().readLine());
                Check.equal(143, status(process));
            }
        });
        Check.that("where nobody listens, SIGTERM ends the program as ever", () -> {
            Process process = start("/nowhere/s", "");
            Check.equal("nobody", process.inputReader().readLine());
            process.toHandle().destroy();
            Check.equal(143, status(process));
        });
        Check.that("a worker that has no memory left for an answer ends, and not with 0", () -> {
            try (FakeInit init = new FakeInit()) {
                Process process = start(init.path(), "");
                init.greet();
                init.job("1", "waits", "[]");
                init.job("2", "fill", "[]");
                // Where memory is short each step is a collection of all of it, and others use the processors as well.
                Check.holds(status(process, 90) != 0, "its status says that jobs are left");
            }
        });
    }
}
