package headworks.agent;

import headworks.fair.Gate;
import headworks.fair.Here;
import headworks.fair.Resource;
import headworks.fair.Scheduler;
import headworks.fair.Stage;
import headworks.fair.Tier;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Data Xceiver: a DataNode reads and writes its disk in fair order, packet by packet.
 *
 * <p>A DataNode sends a packet by one call that reads the disk and writes to the network. A permit must
 * not be held for that: a client may stop reading. So the packet is read under a permit first, into the
 * page cache. The DataNode's own call finds it there. A packet that was received needs no such detour:
 * the DataNode writes it to the disk by a call that does nothing else.
 */
public final class Xceiver {
    private static final int CHUNK = 1 << 16;
    /** As many as there are permits: a DataNode has thousands of threads, and each reads under a permit. */
    private static final Queue<ByteBuffer> BUFFERS = new ConcurrentLinkedQueue<>();
    private static final AtomicBoolean SAID = new AtomicBoolean();

    private static final Gate GATE = new Gate(Scheduler.here(), Stage.XCEIVE, 4);

    private Xceiver() {}

    /** Sets how many reads a DataNode makes at once. Before the server starts. */
    static void setPermits(int count) {
        GATE.setPermits(count);
    }

    /** A packet that is read or written. */
    private record Work(Gate.Waiter waiter, long since) {}

    /** A packet is about to be sent. Whatever goes wrong here, the DataNode goes on. */
    public static void beforeSend(FileChannel file, long position, int count) {
        Work work = begin();
        if (work != null) {
            try {
                read(file, position, count);
            } catch (IOException | RuntimeException unread) {
                // The DataNode's own call meets the same error, and reports it.
            } finally {
                end(work);
            }
        }
    }

    /** A packet is about to be written to the disk. */
    public static Object beforeWrite() {
        return begin();
    }

    public static void afterWrite(Object work) {
        if (work != null) {
            end((Work) work);
        }
    }

    private static Work begin() {
        try {
            String name = Here.name();
            Gate.Waiter waiter = GATE.enter(Tier.of(name), Scheduler.here().tenants().of(name));
            if (waiter == null) {
                return null;
            }
            if (SAID.compareAndSet(false, true)) {
                System.err.println("headworks: several tenants: packets are ordered, " + GATE.permits() + " at a time");
            }
            return new Work(waiter, System.nanoTime());
        } catch (RuntimeException | LinkageError failed) {
            return null;
        }
    }

    private static void end(Work work) {
        GATE.leave(work.waiter, Resource.DISK, System.nanoTime() - work.since);
    }

    private static void read(FileChannel file, long position, int count) throws IOException {
        ByteBuffer free = BUFFERS.poll();
        ByteBuffer buffer = free != null ? free : ByteBuffer.allocateDirect(CHUNK);
        try {
            read(file, position, count, buffer);
        } finally {
            BUFFERS.add(buffer);
        }
    }

    private static void read(FileChannel file, long position, int count, ByteBuffer buffer) throws IOException {
        for (long at = position; at < position + count; ) {
            buffer.clear().limit((int) Math.min(CHUNK, position + count - at));
            int got = file.read(buffer, at);
            if (got <= 0) {
                return;
            }
            at += got;
        }
    }
}
