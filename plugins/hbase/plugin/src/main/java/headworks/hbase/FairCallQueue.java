package headworks.hbase;

import headworks.fair.Here;
import headworks.fair.Resource;
import headworks.fair.Stages;
import headworks.fair.Tenants;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.conf.ConfigurationObserver;
import org.apache.hadoop.hbase.ipc.CallRunner;
import org.apache.hadoop.hbase.ipc.PluggableBlockingQueue;
import org.apache.hadoop.hbase.ipc.PriorityFunction;
import org.apache.hadoop.hbase.ipc.RpcCall;

/**
 * RPC Handle: a call queue of HBase that divides handlers among tenants.
 *
 * <p>HBase makes one for each of its call queues, and each is an instance of the scheduler. A handler
 * that asks for its next call has ended the one before: that is when a call's cost is known.
 *
 * <p>HBase has other queues for {@code hbase:meta}, administration and replication. They stay as they are.
 */
public final class FairCallQueue extends PluggableBlockingQueue implements ConfigurationObserver {
    private static final int HANDLE = 0;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();
    private static final Tenants TENANTS = new Tenants();

    private final Stages<CallRunner> stages = new Stages<>(1, Resource.COUNT);
    private final ThreadLocal<Running> running = new ThreadLocal<>();
    private volatile Settings settings;

    /** What a handler works on. */
    private record Running(Stages.Taken<CallRunner> taken, RpcCall call, long since, long cpuSince) {}

    /** HBase calls this by reflection. */
    public FairCallQueue(int maxQueueLength, PriorityFunction priority, Configuration conf) {
        super(maxQueueLength, priority, conf);
        onConfigurationChange(conf);
    }

    @Override
    public void onConfigurationChange(Configuration changed) {
        settings = new Settings(changed);
        TENANTS.setWeights(settings.weights);
    }

    @Override
    public boolean offer(CallRunner call) {
        Settings now = settings;
        int limit = Math.min(maxQueueLength, now.queueLength);
        Tenants.Tenant tenant = Caller.of(call.getRpcCall(), now, TENANTS);
        return stages.add(HANDLE, Caller.tier(call.getRpcCall(), now), tenant.number, tenant.weight(), call, limit);
    }

    @Override
    public CallRunner take() throws InterruptedException {
        settle();
        return begin(stages.take(HANDLE));
    }

    @Override
    public CallRunner poll(long timeout, TimeUnit unit) throws InterruptedException {
        settle();
        return begin(stages.poll(HANDLE, unit.toNanos(timeout)));
    }

    @Override
    public CallRunner poll() {
        settle();
        return begin(stages.poll(HANDLE));
    }

    private CallRunner begin(Stages.Taken<CallRunner> taken) {
        if (taken == null) {
            return null;
        }
        Here.set(TENANTS.of(taken.tenant()).name);
        if (taken.counts()) {
            // The runner forgets its call when it is over.
            running.set(new Running(taken, taken.item.getRpcCall(), System.nanoTime(), THREADS.getCurrentThreadCpuTime()));
        }
        return taken.item;
    }

    /** The call that this handler took before is over. */
    private void settle() {
        Running over = running.get();
        if (over == null) {
            return;
        }
        running.remove();
        Settings now = settings;
        long[] cost = new long[Resource.COUNT];
        cost[Resource.HANDLERS.ordinal()] = (System.nanoTime() - over.since) / now.handlers;
        cost[Resource.CPU.ordinal()] = (THREADS.getCurrentThreadCpuTime() - over.cpuSince) / PROCESSORS;
        try {
            cost[Resource.NETWORK.ordinal()] = time(over.call.getResponseCellSize(), now.networkBytesPerSecond);
            cost[Resource.DISK.ordinal()] = time(over.call.getBlockBytesScanned(), now.diskBytesPerSecond);
        } catch (RuntimeException | LinkageError unknown) {
            // HBase 2.5 does not count the blocks. The time of the handler and the CPU are charged.
        }
        stages.done(over.taken, cost);
    }

    private static long time(long bytes, long bytesPerSecond) {
        return bytesPerSecond == 0 ? 0 : (long) (1e9 * bytes / bytesPerSecond);
    }

    @Override
    public int size() {
        return stages.size(HANDLE);
    }

    @Override
    public boolean isEmpty() {
        return size() == 0;
    }

    @Override
    public int remainingCapacity() {
        return Math.max(0, maxQueueLength - size());
    }

    /** Calls that are queued, for HBase's figures: a copy. */
    @Override
    public Iterator<CallRunner> iterator() {
        return stages.list(HANDLE).iterator();
    }

    @Override
    public Object[] toArray() {
        return stages.list(HANDLE).toArray();
    }

    @Override
    public <T> T[] toArray(T[] array) {
        return stages.list(HANDLE).toArray(array);
    }

    @Override
    public int drainTo(Collection<? super CallRunner> to) {
        return drainTo(to, Integer.MAX_VALUE);
    }

    @Override
    public int drainTo(Collection<? super CallRunner> to, int most) {
        int count = 0;
        for (; count < most; count++) {
            Stages.Taken<CallRunner> taken = stages.poll(HANDLE);
            if (taken == null) {
                break;
            }
            to.add(taken.item);
        }
        return count;
    }

    @Override
    public void clear() {
        drainTo(new ArrayList<>());
    }

    @Override
    public boolean contains(Object call) {
        return stages.list(HANDLE).contains(call);
    }

    @Override
    public boolean containsAll(Collection<?> calls) {
        return stages.list(HANDLE).containsAll(calls);
    }

    @Override
    public boolean add(CallRunner call) {
        if (!offer(call)) {
            throw new IllegalStateException("the queue is full");
        }
        return true;
    }

    @Override
    public boolean addAll(Collection<? extends CallRunner> calls) {
        calls.forEach(this::add);
        return !calls.isEmpty();
    }

    @Override
    public CallRunner remove() {
        CallRunner call = poll();
        if (call == null) {
            throw new NoSuchElementException();
        }
        return call;
    }

    // HBase never asks for these. To wait for room, or to take what is not next, is no part of this queue.

    @Override
    public void put(CallRunner call) {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean offer(CallRunner call, long timeout, TimeUnit unit) {
        throw new UnsupportedOperationException();
    }

    @Override
    public CallRunner peek() {
        throw new UnsupportedOperationException();
    }

    @Override
    public CallRunner element() {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean remove(Object call) {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean removeAll(Collection<?> calls) {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean retainAll(Collection<?> calls) {
        throw new UnsupportedOperationException();
    }
}
