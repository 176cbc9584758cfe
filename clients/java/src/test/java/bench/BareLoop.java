package bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What a worker without ojs-init would do, with the standard library: fetches and acknowledges over
 * HTTP on kept connections, on CONCURRENCY threads, until JOBS jobs are acknowledged at OJS_URL.
 */
public final class BareLoop {
    private static final int MOST_EMPTY_FETCHES = 1000;

    private static final ObjectMapper JSON = new ObjectMapper();

    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String base = System.getenv("OJS_URL") + "/ojs/v1/workers/";
    private final String workerId = "bare-" + ProcessHandle.current().pid();
    private final int jobs = Integer.parseInt(System.getenv("JOBS"));
    private final AtomicInteger done = new AtomicInteger();

    private BareLoop() {}

    /** Runs it. */
    public static void main(String[] args) throws InterruptedException {
        BareLoop loop = new BareLoop();
        Thread[] threads = new Thread[Integer.parseInt(System.getenv().getOrDefault("CONCURRENCY", "10"))];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(loop::work);
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(loop.done.get() + " jobs");
        System.exit(loop.done.get() >= loop.jobs ? 0 : 1);
    }

    private void work() {
        try {
            for (int empty = 0; done.get() < jobs && empty < MOST_EMPTY_FETCHES;) {
                Map<?, ?> answer = JSON.readValue(post("fetch",
                        Map.of("queues", List.of("default"), "count", 1, "worker_id", workerId)), Map.class);
                List<?> fetched = (List<?>) answer.get("jobs");
                empty = fetched.isEmpty() ? empty + 1 : 0;
                for (Object job : fetched) {
                    post("ack", done(((Map<?, ?>) job).get("id")));
                    done.incrementAndGet();
                }
            }
        } catch (IOException | InterruptedException broken) {
            System.err.println("bare loop: " + broken);
        }
    }

    private static Map<String, Object> done(Object jobId) {
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("job_id", jobId);
        body.put("result", null);
        return body;
    }

    private String post(String what, Map<String, Object> body) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(base + what))
                .header("Content-Type", "application/openjobspec+json")
                .POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body))).build();
        HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() / 100 != 2) {
            throw new IOException(what + " was answered with " + response.statusCode() + ": " + response.body());
        }
        return response.body();
    }
}
