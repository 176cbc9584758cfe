package dev.ojs.worker;

import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.*;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * The connection to ojs-init. One thread reads; every thread writes its frames itself, and leaves
 * them to the reading thread only while the socket is full.
 *
 * <p>The channel does not block, because an interrupt would close a channel that blocks.
 */
final class SocketLink implements Link {
    private static final int CHUNK = 64 * 1024;

    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    private ByteBuffer input = ByteBuffer.allocate(CHUNK);

    // Guarded by this.
    private final Map<Topic, byte[]> waiting = new LinkedHashMap<>();
    private Topic currentTopic;
    private ByteBuffer current;
    private volatile boolean isClosed;

    SocketLink(String path) throws IOException {
        channel = SocketChannel.open(UnixDomainSocketAddress.of(path));
        channel.configureBlocking(false);
        selector = Selector.open();
        key = channel.register(selector, SelectionKey.OP_READ);
    }

    // Writing

    @Override
    public synchronized void send(Topic topic, byte[] frame) {
        waiting.put(topic, frame);
        if (current == null) { write(); }
    }

    @Override public synchronized void withdraw(Topic topic) { waiting.remove(topic); }

    @Override
    public void awaitSent(Topic topic) {
        while (isPending(topic)) { LockSupport.parkNanos(1_000_000); }
        if (isClosed) { throw new OjsException("ojs-init has closed the connection"); }
    }

    private synchronized boolean isPending(Topic topic) {
        return !isClosed && (topic.equals(currentTopic) || waiting.containsKey(topic));
    }

    @Override public void wakeUp() { selector.wakeup(); }

    synchronized boolean isFlushed() { return isClosed || current == null; }

    /** Writes until nothing waits or the socket is full. */
    private synchronized void write() {
        try {
            while (!isClosed && (current != null || takeNext())) {
                while (current.hasRemaining()) {
                    // In chunks, because the channel keeps a copy as large as the largest write.
                    ByteBuffer chunk = current.slice(current.position(), Math.min(current.remaining(), CHUNK));
                    if (channel.write(chunk) == 0) {
                        key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
                        selector.wakeup();
                        return;
                    }
                    current.position(current.position() + chunk.position());
                }
                current = null;
                currentTopic = null;
            }
            if (key.interestOps() != SelectionKey.OP_READ) { key.interestOps(SelectionKey.OP_READ); }
        } catch (IOException broken) {
            isClosed = true; // what ojs-init wrote before it closed the connection can still be read
        }
    }

    private boolean takeNext() {
        if (waiting.isEmpty()) { return false; }
        currentTopic = waiting.keySet().iterator().next();
        current = ByteBuffer.wrap(waiting.remove(currentTopic));
        return true;
    }

    // Reading

    /**
     * Waits for something to do and does it; false at the end of the connection.
     *
     * @param lines takes the lines that come in; their bytes are only valid during the call.
     */
    boolean round(Consumer<ByteBuffer> lines) {
        try {
            selector.select();
            selector.selectedKeys().clear();
            if (key.isWritable()) { write(); }
            return !key.isReadable() || read(lines);
        } catch (IOException broken) {
            isClosed = true;
            return false;
        }
    }

    private boolean read(Consumer<ByteBuffer> lines) throws IOException {
        int from = input.position();
        if (from == input.capacity()) { input = ByteBuffer.allocate(2 * from).put(input.flip()); }
        if (channel.read(input.limit(Math.min(input.capacity(), from + CHUNK))) < 0) {
            isClosed = true;
            return false;
        }
        byte[] bytes = input.array();
        int start = 0;
        for (int i = from; i < input.position(); i++) {
            if (bytes[i] == '\n') {
                lines.accept(ByteBuffer.wrap(bytes, start, i - start));
                start = i + 1;
            }
        }
        input.flip().position(start);
        // A buffer that a large frame has made is not kept.
        input = start > CHUNK ? ByteBuffer.allocate(Math.max(CHUNK, 2 * input.remaining())).put(input) : input.compact();
        return true;
    }
}
