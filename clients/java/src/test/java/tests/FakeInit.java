package tests;

import dev.ojs.worker.Json;
import dev.ojs.worker.Options;
import dev.ojs.worker.Worker;
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
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Plays ojs-init for a worker of this process. */
final class FakeInit implements AutoCloseable {
    private static final int PATIENCE_SECONDS = 20;

    private final Path directory;
    private final ServerSocketChannel server;
    private final String path;
    private SocketChannel socket;
    private BufferedReader reader;
    private CompletableFuture<Void> ended;

    FakeInit() throws IOException {
        directory = Files.createTempDirectory("ojs-java-");
        path = directory.resolve("s").toString();
        server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of(path));
    }

    /** Options for a worker that this talks to. */
    Options options() {
        return new Options().socketPath(path).handleSignals(false);
    }

    /** Runs it, says hello, and gives its `ready`. */
    Map<String, Object> start(Worker worker, String... helloFields) throws Exception {
        ended = new CompletableFuture<>();
        daemon(() -> {
            try {
                worker.run();
                ended.complete(null);
            } catch (Throwable thrown) {
                ended.completeExceptionally(thrown);
            }
        });
        return greet(helloFields);
    }

    /** Where a worker of another process finds this. */
    String path() {
        return path;
    }

    /** Says hello to whoever connects, and gives its `ready`. */
    Map<String, Object> greet(String... helloFields) throws IOException {
        socket = server.accept();
        reader = new BufferedReader(Channels.newReader(socket, StandardCharsets.UTF_8));
        send("{\"type\":\"hello\",\"protocol\":1,\"worker_id\":\"w\",\"state\":\"running\",\"concurrency\":10,\"queues\":[],"
                + "\"max_frame\":4194304" + String.join("", helloFields) + "}");
        return next();
    }

    void send(String line) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap((line + "\n").getBytes(StandardCharsets.UTF_8));
        while (bytes.hasRemaining()) {
            socket.write(bytes);
        }
    }

    void job(String id, String type, String args) throws IOException {
        send("{\"type\":\"job\",\"job\":{\"id\":\"" + id + "\",\"type\":\"" + type + "\",\"args\":" + args + "}}");
    }

    /** The next frame; null at the end. One that does not come is an error. */
    @SuppressWarnings("unchecked")
    Map<String, Object> next() throws IOException {
        CompletableFuture<String> coming = CompletableFuture.supplyAsync(() -> {
            try {
                return reader.readLine();
            } catch (IOException gone) {
                return null;
            }
        }, FakeInit::daemon);
        try {
            String line = coming.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
            return line == null ? null : (Map<String, Object>) Json.parse(line);
        } catch (InterruptedException | ExecutionException | TimeoutException never) {
            throw new IOException("no frame comes", never);
        }
    }

    private static void daemon(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
    }

    /** How `run` ended: null when well. */
    Throwable ending() throws InterruptedException, TimeoutException {
        try {
            ended.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
            return null;
        } catch (ExecutionException thrown) {
            return thrown.getCause();
        }
    }

    void closeSocket() throws IOException {
        socket.close();
    }

    @Override
    public void close() throws IOException {
        if (socket != null) {
            socket.close();
        }
        server.close();
        Files.deleteIfExists(Path.of(path));
        Files.deleteIfExists(directory);
    }
}
