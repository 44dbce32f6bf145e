package headworks.agent;

import headworks.fair.Gate;
import headworks.fair.Here;
import headworks.fair.Resource;
import headworks.fair.Tenants;
import headworks.fair.Tier;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Data Xceiver: reads of a DataNode's disk are made in fair order, packet by packet.
 *
 * <p>A DataNode sends a packet by one call that reads the disk and writes to the network. A permit must
 * not be held for that: a client may stop reading. So the packet is read under a permit first, into the
 * page cache. The DataNode's own call finds it there.
 */
public final class Xceiver {
    private static final int CHUNK = 1 << 16;
    private static final Tenants TENANTS = new Tenants();
    /** As many as there are permits: a DataNode has thousands of threads, and each reads under a permit. */
    private static final Queue<ByteBuffer> BUFFERS = new ConcurrentLinkedQueue<>();
    private static final AtomicBoolean SAID = new AtomicBoolean();

    private static volatile int permits = 4;
    private static volatile Gate gate = new Gate(permits);

    private Xceiver() {}

    /** Sets how many reads a DataNode makes at once. Before the server starts. */
    static void setPermits(int count) {
        permits = count;
        gate = new Gate(count);
    }

    /** A packet is about to be sent. Whatever goes wrong here, the DataNode goes on. */
    public static void beforeSend(FileChannel file, long position, int count) {
        try {
            String name = Here.name();
            Tier tier = Names.HOUSEKEEPING.equals(name) ? Tier.BACKGROUND : Tier.USERS;
            Gate.Waiter waiter = gate.enter(tier, TENANTS.of(name));
            if (waiter == null) {
                return;
            }
            if (SAID.compareAndSet(false, true)) {
                System.err.println("headworks: several tenants read: their reads are ordered, " + permits + " at a time");
            }
            long[] cost = new long[Resource.COUNT];
            long start = System.nanoTime();
            try {
                read(file, position, count);
            } finally {
                cost[Resource.DISK.ordinal()] = (System.nanoTime() - start) / permits;
                gate.leave(waiter, cost);
            }
        } catch (IOException | RuntimeException unread) {
            // The DataNode's own call meets the same error, and reports it.
        }
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
