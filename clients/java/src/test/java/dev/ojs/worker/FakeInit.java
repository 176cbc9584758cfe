package dev.ojs.worker;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** Plays ojs-init for a worker of this process. */
final class FakeInit implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int PATIENCE_SECONDS = 20;

    private final Path directory = Files.createTempDirectory("ojs-java-");
    private final Path path = directory.resolve("s");
    private final ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private SocketChannel socket;
    private BufferedReader reader;
    Thread running;

    FakeInit() throws IOException {
        server.bind(UnixDomainSocketAddress.of(path));
    }

    Options options() {
        return new Options().socketPath(path.toString()).handleSignals(false);
    }

    /** Runs the worker, says hello, and returns its `ready`. */
    JsonNode start(Worker worker) throws Exception {
        running = new Thread(() -> {
            try {
                worker.run();
                ended.complete(null);
            } catch (Throwable thrown) {
                ended.completeExceptionally(thrown);
            }
        });
        running.setDaemon(true);
        running.start();
        socket = server.accept();
        reader = new BufferedReader(Channels.newReader(socket, StandardCharsets.UTF_8));
        send("{'type':'hello','protocol':1,'worker_id':'w','state':'running','concurrency':10,'max_frame':4194304}");
        return next();
    }

    /** Sends a frame, with `'` for `"`. */
    void send(String line) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap((line.replace('\'', '"') + "\n").getBytes(StandardCharsets.UTF_8));
        while (bytes.hasRemaining()) {
            socket.write(bytes);
        }
    }

    void job(String id, String type, String args) throws IOException {
        send("{'type':'job','job':{'id':'" + id + "','type':'" + type + "','args':" + args + "}}");
    }

    void cancel(String id, String reason) throws IOException {
        send("{'type':'cancel','job_id':'" + id + "','reason':'" + reason + "','grace_ms':1000}");
    }

    /** The next frame. */
    JsonNode next() throws Exception {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return JSON.readTree(reader.readLine());
            } catch (IOException gone) {
                throw new IllegalStateException(gone);
            }
        }).get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    }

    /** Reads that the worker takes no more jobs, and tells it so. */
    void readStop() throws Exception {
        JsonNode ready = next();
        if (!ready.path("type").asText().equals("ready") || ready.path("concurrency").asInt(-1) != 0) {
            throw new AssertionError("not a ready with concurrency 0: " + ready);
        }
        String nobody = next().get("job_id").asText();
        send("{'type':'error','code':'not_held','message':'no','job_id':'" + nobody + "'}");
    }

    /** How `run` ended; null when it returned. */
    Throwable ending() throws Exception {
        try {
            ended.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
            return null;
        } catch (ExecutionException thrown) {
            return thrown.getCause();
        }
    }

    @Override
    public void close() throws IOException {
        if (socket != null) {
            socket.close();
        }
        server.close();
        Files.deleteIfExists(path);
        Files.deleteIfExists(directory);
    }
}
