package dev.ojs.worker;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedList;
import java.util.List;

/**
 * The connection. One thread, which nobody interrupts, calls {@link #round} again and again; any thread may
 * {@link #send}. Reading never waits for writing: ojs-init stops reading from us while we do not read from it.
 */
final class Link implements Transport {
    private static final int READ_SIZE = 256 * 1024;
    private static final int WRITE_BUDGET = 1024 * 1024;
    private static final int SLACK = 64 * 1024;
    /** So many frames that wait count as a full socket: a handler can be faster than the thread of the socket. */
    private static final int MOST_WAITING = 1000;
    private static final long LOOK_EVERY_MILLIS = 20;

    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    private final ByteBuffer input = ByteBuffer.allocateDirect(READ_SIZE);
    private ByteArrayOutputStream rest = new ByteArrayOutputStream();
    private boolean isSkipping;
    private boolean isEof;
    private boolean isLeaving;
    private volatile int maxLine = Frames.DEFAULT_MAX_FRAME + SLACK;

    private final Object lock = new Object();
    // No ArrayDeque: one that runs out of memory as it grows has lost all that was in it.
    private final Deque<Outgoing> urgent = new LinkedList<>();
    private final Deque<Outgoing> queue = new LinkedList<>();
    private Outgoing current;
    private ByteBuffer output;
    private boolean isOpen = true;
    private boolean isBroken;
    private boolean isFull;

    Link(String path) throws IOException {
        channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            channel.connect(UnixDomainSocketAddress.of(path));
            channel.configureBlocking(false);
            selector = Selector.open();
            key = channel.register(selector, SelectionKey.OP_READ);
        } catch (IOException | RuntimeException error) {
            channel.close();
            throw error;
        }
    }

    /** The longest line that is kept while it comes in, as `hello` says. */
    void setMaxFrame(int bytes) {
        maxLine = bytes + SLACK;
    }

    @Override
    public Outgoing send(byte[] data, boolean isUrgent) {
        Outgoing item = new Outgoing(data);
        synchronized (lock) {
            if (!isOpen) {
                throw new OjsException.ConnectionLost();
            }
            (isUrgent ? urgent : queue).add(item);
        }
        selector.wakeup();
        return item;
    }

    @Override
    public boolean replace(Outgoing item, byte[] data) {
        synchronized (lock) {
            if (item.isWaiting) {
                item.data = data;
            }
            return item.isWaiting;
        }
    }

    @Override
    public void withdraw(Outgoing item, byte[] data) {
        synchronized (lock) {
            if (!item.isWaiting || item.data != data || !queue.remove(item)) {
                return;
            }
            item.isWaiting = false;
            item.isWithdrawn = true;
        }
        item.done.countDown(); // others may wait for it as well
    }

    @Override
    public boolean isFull() {
        synchronized (lock) {
            return isFull || queue.size() >= MOST_WAITING;
        }
    }

    @Override
    public boolean isFlushed() {
        synchronized (lock) {
            return current == null && urgent.isEmpty() && queue.isEmpty();
        }
    }

    @Override
    public void wake() {
        selector.wakeup();
    }

    boolean isEof() {
        return isEof;
    }

    /**
     * From now on the process may end at any moment: the connection is looked at every 20 ms. A JVM that ends waits
     * 300 ms for each thread to leave the kernel, also for one that waits there for a socket.
     */
    void beginLeaving() {
        isLeaving = true;
    }

    /** Waits for something to do, does it, and returns the lines that came in. A negative patience has no end. */
    List<byte[]> round(long patienceMillis) throws IOException {
        key.interestOps(SelectionKey.OP_READ | (isFlushed() ? 0 : SelectionKey.OP_WRITE));
        if (isLeaving || patienceMillis == 0) {
            boolean isNothing = selector.selectNow() == 0;
            if (isLeaving && isNothing && patienceMillis != 0) {
                ProcessEnd.sleep(patienceMillis < 0 ? LOOK_EVERY_MILLIS : Math.min(patienceMillis, LOOK_EVERY_MILLIS));
            }
        } else {
            selector.select(Math.max(0, patienceMillis));
        }
        selector.selectedKeys().clear();
        List<byte[]> lines = new ArrayList<>();
        write();
        if (key.isReadable()) {
            read(lines);
        } else if (isBroken) {
            isEof = true;
        }
        return lines;
    }

    private void write() {
        List<Outgoing> finished = new ArrayList<>();
        synchronized (lock) {
            int budget = WRITE_BUDGET;
            while (budget > 0 && !isBroken && takeNext()) {
                try {
                    int sent = channel.write(output);
                    budget -= sent;
                    isFull = output.hasRemaining();
                    if (isFull) {
                        break;
                    }
                } catch (IOException broken) {
                    // What the other end wrote before it closed is still to be read.
                    isBroken = true;
                }
                if (!output.hasRemaining()) {
                    current.isWritten = true;
                    finished.add(current);
                    current = null;
                }
            }
        }
        for (Outgoing item : finished) {
            item.done.countDown();
        }
    }

    private boolean takeNext() {
        if (current == null) {
            Outgoing next = urgent.isEmpty() ? queue.poll() : urgent.poll();
            if (next == null) {
                return false;
            }
            next.isWaiting = false;
            current = next;
            output = ByteBuffer.wrap(next.data);
        }
        return true;
    }

    private void read(List<byte[]> lines) {
        int count;
        input.clear();
        try {
            count = channel.read(input);
        } catch (IOException reset) {
            count = -1;
        }
        if (count < 0) {
            isEof = true;
            return;
        }
        byte[] chunk = new byte[count];
        input.flip().get(chunk);
        int start = 0;
        for (int i = 0; i < count; i++) {
            if (chunk[i] == '\n') {
                keep(chunk, start, i);
                if (!isSkipping) {
                    lines.add(rest.toByteArray());
                }
                isSkipping = false;
                rest.reset();
                start = i + 1;
            }
        }
        keep(chunk, start, count);
    }

    private void keep(byte[] chunk, int start, int end) {
        if (rest.size() + end - start > maxLine && !isSkipping) {
            Session.LOG.warning("a frame from ojs-init is ignored: it has more than " + maxLine + " bytes");
            isSkipping = true;
            rest = new ByteArrayOutputStream();
        }
        if (!isSkipping) {
            rest.write(chunk, start, end - start);
        }
    }

    /** Closes it; only from the thread that calls {@link #round}. It takes no memory, since there may be none. */
    void close() {
        synchronized (lock) {
            isOpen = false;
        }
        try {
            channel.close();
            selector.close();
        } catch (IOException ignored) {
            // It is closed all the same.
        }
        for (Outgoing item = abandon(); item != null; item = abandon()) {
            item.done.countDown();
        }
    }

    /** One that is never written; null if there is none. */
    private Outgoing abandon() {
        synchronized (lock) {
            Outgoing item = current != null ? current : urgent.isEmpty() ? queue.poll() : urgent.poll();
            current = null;
            if (item != null) {
                item.isWaiting = false;
            }
            return item;
        }
    }
}
