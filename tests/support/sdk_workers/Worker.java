// Behaves as a worker on the Java SDK does, with its faults. What the variables mean: tests/README.md.

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

public class Worker {
    static final String BASE = System.getenv("OJS_URL").replaceAll("/+$", "") + "/ojs/v1";
    static final String TOKEN = System.getenv("OJS_AUTH_TOKEN");
    static final String DIRECTORY = System.getenv("SDK_DIRECTORY");
    static final long POLL_MS = setting("SDK_POLL_MS", 1000);
    static final long HEARTBEAT_MS = setting("SDK_HEARTBEAT_MS", 5000);
    static final long GRACE_MS = setting("SDK_GRACE_MS", 25000);
    static final int CONCURRENCY = (int) setting("SDK_CONCURRENCY", 10);
    static final String WORKER_ID = "worker-" + UUID.randomUUID();

    // The usual client: it asks each new connection for HTTP/2, and keeps it.
    static final HttpClient CLIENT = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(10)).build();
    static final ExecutorService JOBS = Executors.newFixedThreadPool(CONCURRENCY);
    static final Set<String> HELD = ConcurrentHashMap.newKeySet();
    static volatile String state = "running";

    static long setting(String name, long usual) {
        String value = System.getenv(name);
        return value == null ? usual : Long.parseLong(value);
    }

    static void note(String word, String job, Object attempt) {
        if (DIRECTORY == null) return;
        String line = System.nanoTime() + " " + word + " " + job + " " + attempt + "\n";
        try {
            Files.writeString(Path.of(DIRECTORY, "journal"), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            System.err.println("journal: " + error);
        }
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** It repeats nothing. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> post(String path, Map<String, Object> body) throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(BASE + path))
            .timeout(Duration.ofSeconds(30))
            .header("Content-Type", "application/openjobspec+json")
            .header("Accept", "application/openjobspec+json")
            .header("OJS-Version", "1.0.0-rc.1")
            .header("X-Request-ID", UUID.randomUUID().toString())
            .POST(HttpRequest.BodyPublishers.ofString(Json.write(body)));
        if (TOKEN != null) request.header("Authorization", "Bearer " + TOKEN);
        HttpResponse<String> reply = CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (reply.statusCode() >= 400) throw new IOException("status " + reply.statusCode());
        return reply.body().isEmpty() ? Map.of() : (Map<String, Object>) Json.read(reply.body());
    }

    /** The handler says now and then that it is alive, as the SDK lets it: with a heartbeat that names its own job alone. */
    static void work(Map<String, Object> job, long ms) {
        long every = setting("SDK_OWN_BEAT_MS", Long.MAX_VALUE);
        for (; ms > every; ms -= every) {
            pause(every);
            try {
                post("/workers/heartbeat", Map.of("worker_id", WORKER_ID, "active_jobs", List.of(job.get("id"))));
            } catch (Exception error) {
                System.err.println("heartbeat of a handler: " + error);
            }
        }
        pause(ms);
    }

    static Object handle(Map<String, Object> job) throws Exception {
        List<?> args = (List<?>) job.getOrDefault("args", List.of(0.0));
        String type = (String) job.get("type");
        if (type.equals("ok")) return args.get(0);
        work(job, ((Number) args.get(0)).longValue());
        if (type.equals("enqueue")) {
            post("/jobs", Map.of("type", args.get(1), "args", args.subList(2, args.size()), "queue", job.get("queue")));
        }
        if (type.equals("fail")) throw new IllegalStateException("failed as told");
        return type.equals("large") ? "x".repeat(((Number) args.get(1)).intValue()) : Map.of("slept", args.get(0));
    }

    static void run(Map<String, Object> job) {
        String id = (String) job.get("id");
        Object attempt = job.get("attempt");
        note("took", id, attempt);
        String word = "acked";
        String path = "/workers/ack";
        Map<String, Object> body = new LinkedHashMap<>(Map.of("job_id", id));
        try {
            body.put("result", handle(job));
        } catch (Exception error) {
            word = "failed";
            path = "/workers/nack";
            body.put("error", Map.of("code", "handler_error", "message", error.getMessage(), "retryable", true,
                "details", Map.of("class", error.getClass().getName())));
        }
        note("ended", id, attempt);
        try {
            post(path, body);
            note(word, id, attempt);
        } catch (Exception error) {
            note("unreported", id, attempt);
            System.err.println("job " + id + ": " + error);
        }
        HELD.remove(id);
    }

    @SuppressWarnings("unchecked")
    static void fetch() {
        while (!state.equals("stopping")) {
            int free = CONCURRENCY - HELD.size();
            List<Map<String, Object>> jobs = List.of();
            if (free > 0 && state.equals("running")) {
                try {
                    Map<String, Object> answer =
                        post("/workers/fetch", Map.of("queues", List.of("default"), "count", free, "worker_id", WORKER_ID));
                    jobs = (List<Map<String, Object>>) answer.getOrDefault("jobs", List.of());
                } catch (Exception error) {
                    System.err.println("fetch: " + error);
                }
            }
            for (Map<String, Object> job : jobs) {
                HELD.add((String) job.get("id"));
                JOBS.submit(() -> run(job));
            }
            if (jobs.isEmpty()) pause(POLL_MS);
        }
    }

    static void beat() {
        while (true) {
            pause(HEARTBEAT_MS);
            if (state.equals("stopping")) return;
            try {
                Map<String, Object> body = Map.of("worker_id", WORKER_ID, "active_jobs", new ArrayList<>(HELD));
                Object said = post("/workers/heartbeat", body).get("state");
                if ("quiet".equals(said) && state.equals("running")) state = "quiet";
                if ("terminate".equals(said)) new Thread(() -> System.exit(0)).start();
            } catch (Exception error) {
                System.err.println("heartbeat: " + error);
            }
        }
    }

    /** What the virtual machine runs at its end, also at a signal; it ends with the signal's status. */
    static void stop() {
        note("terminated", String.valueOf(ProcessHandle.current().pid()), "");
        state = "stopping";
        long end = System.nanoTime() + GRACE_MS * 1_000_000;
        while (!HELD.isEmpty() && System.nanoTime() < end) pause(10);
        if (!HELD.isEmpty()) System.err.println(HELD.size() + " jobs are still active");
    }

    public static void main(String[] words) throws InterruptedException {
        Runtime.getRuntime().addShutdownHook(new Thread(Worker::stop));
        note("started", String.valueOf(ProcessHandle.current().pid()), "");
        // Longest that a worker is there that nobody ends.
        long life = setting("SDK_LIFE_S", 0);
        if (life > 0) {
            Thread end = new Thread(() -> {
                pause(life * 1000);
                Runtime.getRuntime().halt(9);
            });
            end.setDaemon(true);
            end.start();
        }
        Thread beats = new Thread(Worker::beat);
        beats.setDaemon(true);
        beats.start();
        fetch();
        Thread.currentThread().join();
    }
}

/** As much of JSON as the worker needs: the standard library has none. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object read(String text) {
        return new Json(text).value();
    }

    private char next() {
        while (Character.isWhitespace(text.charAt(at))) at++;
        return text.charAt(at);
    }

    private Object value() {
        char first = next();
        if (first == '{') return object();
        if (first == '[') return array();
        if (first == '"') return string();
        int start = at;
        while (at < text.length() && ",]} \n\r\t".indexOf(text.charAt(at)) < 0) at++;
        String word = text.substring(start, at);
        if (word.equals("null")) return null;
        if (word.equals("true") || word.equals("false")) return Boolean.valueOf(word);
        if (word.matches("-?\\d{1,18}")) return Long.valueOf(word);
        return Double.valueOf(word);
    }

    private Map<String, Object> object() {
        Map<String, Object> found = new LinkedHashMap<>();
        at++;
        while (next() != '}') {
            String name = string();
            next();
            at++;
            found.put(name, value());
            if (next() == ',') at++;
        }
        at++;
        return found;
    }

    private List<Object> array() {
        List<Object> found = new ArrayList<>();
        at++;
        while (next() != ']') {
            found.add(value());
            if (next() == ',') at++;
        }
        at++;
        return found;
    }

    private String string() {
        next();
        StringBuilder found = new StringBuilder();
        for (at++; text.charAt(at) != '"'; at++) {
            char c = text.charAt(at);
            if (c != '\\') {
                found.append(c);
                continue;
            }
            c = text.charAt(++at);
            if (c == 'u') {
                found.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                at += 4;
            } else {
                int known = "nrtbf".indexOf(c);
                found.append(known < 0 ? c : "\n\r\t\b\f".charAt(known));
            }
        }
        at++;
        return found.toString();
    }

    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            map.forEach((name, part) -> parts.add(write(name) + ":" + write(part)));
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof List<?> list) {
            List<String> parts = new ArrayList<>();
            list.forEach(part -> parts.add(write(part)));
            return "[" + String.join(",", parts) + "]";
        }
        if (value instanceof String string) {
            StringBuilder quoted = new StringBuilder("\"");
            for (char c : string.toCharArray()) {
                if (c == '"' || c == '\\') quoted.append('\\').append(c);
                else if (c < ' ') quoted.append(String.format("\\u%04x", (int) c));
                else quoted.append(c);
            }
            return quoted.append('"').toString();
        }
        return String.valueOf(value);
    }
}
