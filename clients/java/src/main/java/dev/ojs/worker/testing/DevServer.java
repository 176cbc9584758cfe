package dev.ojs.worker.testing;

import dev.ojs.worker.Json;
import dev.ojs.worker.OjsException;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * A development server ({@code ojs-devserver}, an Open Job Spec backend in memory) for tests, on a port of its own.
 *
 * <pre>{@code
 * try (DevServer server = DevServer.start()) {
 *     String id = server.enqueue("email.send", List.of("a@b.c"), Map.of());
 *     ... a worker under ojs-init with OJS_URL = server.url()
 *     server.awaitState(id, "completed", Duration.ofSeconds(10));
 * }
 * }</pre>
 */
public final class DevServer implements AutoCloseable {
    private static final String ENV_PROGRAM = "OJS_DEVSERVER";
    private static final String NAME = "ojs-devserver";
    private static final long START_MILLIS = 10_000;
    private static final long END_MILLIS = 5_000;
    private static final long LOOK_EVERY_MILLIS = 10;

    private final Process process;
    private final Path folder;
    private final String url;
    private final Thread atExit;
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private DevServer(Process process, Path folder, String url, Thread atExit) {
        this.process = process;
        this.folder = folder;
        this.url = url;
        this.atExit = atExit;
    }

    /** The program: what {@code OJS_DEVSERVER} names, else {@code ojs-devserver} on {@code PATH}; none where it is missing. */
    public static Optional<Path> program() {
        String named = System.getenv(ENV_PROGRAM);
        if (named != null && !named.isEmpty()) {
            return Optional.of(Path.of(named)).filter(Files::isExecutable);
        }
        for (String folder : System.getenv().getOrDefault("PATH", "").split(":")) {
            Path file = Path.of(folder, NAME);
            if (!folder.isEmpty() && Files.isRegularFile(file) && Files.isExecutable(file)) {
                return Optional.of(file);
            }
        }
        return Optional.empty();
    }

    /**
     * Starts one and waits until it can be reached.
     *
     * @param options more options of {@code ojs-devserver serve}, such as {@code --dialect go}.
     * @return the server; close it, or let the JVM end.
     * @throws NoDevServer if the program is missing: the message says what to do.
     * @throws OjsException if it does not come up within 10 s.
     */
    public static DevServer start(String... options) {
        Path program = program().orElseThrow(() -> new NoDevServer(NAME + " is not there: neither " + ENV_PROGRAM
                + " names an executable file nor is it on PATH. In the sources of ojs-init \"cargo build -p ojs-devserver\" "
                + "makes it. Tests of handlers alone need none: worker.perform"));
        Path folder = null;
        try {
            folder = Files.createTempDirectory(NAME);
            Path url = folder.resolve("url");
            List<String> command = new ArrayList<>(List.of(program.toString(), "serve", "--listen", "127.0.0.1:0",
                    "--port-file", url.toString()));
            command.addAll(List.of(options));
            Path log = folder.resolve("log");
            Process process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start();
            Thread atExit = new Thread(process::destroyForcibly, NAME);
            Runtime.getRuntime().addShutdownHook(atExit);
            try {
                return new DevServer(process, folder, await(process, url, log), atExit);
            } catch (IOException | RuntimeException | InterruptedException failed) {
                process.destroyForcibly();
                Runtime.getRuntime().removeShutdownHook(atExit);
                throw failed;
            }
        } catch (IOException failed) {
            delete(folder);
            throw new OjsException(program + " cannot be started: " + failed.getMessage());
        } catch (InterruptedException interrupted) {
            delete(folder);
            Thread.currentThread().interrupt();
            throw new OjsException("interrupted while " + program + " was started");
        } catch (RuntimeException failed) {
            delete(folder);
            throw failed;
        }
    }

    private static String await(Process process, Path url, Path log) throws IOException, InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(START_MILLIS);
        while (!Files.exists(url)) {
            if (!process.isAlive()) {
                throw new OjsException(NAME + " ended with status " + process.exitValue() + ": "
                        + Files.readString(log).strip());
            }
            if (System.nanoTime() - end >= 0) {
                throw new OjsException(NAME + " cannot be reached after " + START_MILLIS + " ms");
            }
            Thread.sleep(LOOK_EVERY_MILLIS);
        }
        return Files.readString(url).strip();
    }

    /** Where it is: {@code http://127.0.0.1:PORT}, for {@code OJS_URL}. */
    public String url() {
        return url;
    }

    /**
     * Enqueues a job.
     *
     * @param type its type.
     * @param args its arguments.
     * @param options more of it: queue, timeout_ms, meta, retry.
     * @return its id.
     * @throws OjsException if the server refuses it.
     */
    public String enqueue(String type, List<?> args, Map<String, ?> options) {
        String body = Json.write(Map.of("type", type, "args", args, "options", options));
        Map<?, ?> answer = ask(HttpRequest.newBuilder(URI.create(url + "/ojs/v1/jobs"))
                .header("Content-Type", "application/openjobspec+json")
                .POST(HttpRequest.BodyPublishers.ofString(body)).build());
        return (String) ((Map<?, ?>) answer.get("job")).get("id");
    }

    /**
     * Looks at a job.
     *
     * @param id its id.
     * @return all that the server knows about it: state, attempt, result, errors.
     * @throws OjsException if there is no such job.
     */
    @SuppressWarnings("unchecked")
    public Map<String, Object> job(String id) {
        String path = "/ojs/v1/jobs/" + URLEncoder.encode(id, StandardCharsets.UTF_8);
        Map<?, ?> answer = ask(HttpRequest.newBuilder(URI.create(url + path)).build());
        return (Map<String, Object>) answer.get("job");
    }

    /**
     * Waits until a job is in a state.
     *
     * @param id its id.
     * @param state completed, retryable, discarded, available, active, cancelled or another of the specification.
     * @param patience how long.
     * @return the job.
     * @throws OjsException if it is not in that state in time; the message says in which it is.
     */
    public Map<String, Object> awaitState(String id, String state, Duration patience) {
        long end = System.nanoTime() + patience.toNanos();
        while (true) {
            Map<String, Object> job = job(id);
            if (state.equals(job.get("state"))) {
                return job;
            }
            if (System.nanoTime() - end >= 0) {
                throw new OjsException("job " + id + " is " + job.get("state") + " after " + patience.toMillis()
                        + " ms, not " + state);
            }
            pause();
        }
    }

    private static void pause() {
        try {
            Thread.sleep(LOOK_EVERY_MILLIS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new OjsException("interrupted while waiting for a job");
        }
    }

    private Map<?, ?> ask(HttpRequest request) {
        try {
            HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() / 100 != 2) {
                throw new OjsException(NAME + " answers " + response.statusCode() + ": " + response.body());
            }
            return (Map<?, ?>) Json.parse(response.body());
        } catch (IOException broken) {
            throw new OjsException(NAME + " does not answer: " + broken.getMessage());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new OjsException("interrupted while " + NAME + " was asked");
        }
    }

    /** Ends it, and forgets all jobs. */
    @Override
    public void close() {
        process.destroy();
        try {
            if (!process.waitFor(END_MILLIS, TimeUnit.MILLISECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        try {
            Runtime.getRuntime().removeShutdownHook(atExit);
        } catch (IllegalStateException ending) {
            // The JVM is ending: it runs by itself.
        }
        delete(folder);
    }

    private static void delete(Path folder) {
        if (folder == null) {
            return;
        }
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                Files.deleteIfExists(file);
            }
            Files.deleteIfExists(folder);
        } catch (IOException left) {
            // A folder that stays in the directory for temporary files must not fail a test.
        }
    }
}
