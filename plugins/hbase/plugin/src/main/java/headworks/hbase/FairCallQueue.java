package headworks.hbase;

import headworks.fair.Controller;
import headworks.fair.Here;
import headworks.fair.Parts;
import headworks.fair.Resource;
import headworks.fair.Scheduler;
import headworks.fair.Slice;
import headworks.fair.Stage;
import headworks.fair.Stages;
import headworks.fair.Status;
import headworks.fair.Tenants;
import headworks.fair.Worker;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.conf.ConfigurationObserver;
import org.apache.hadoop.hbase.ipc.CallRunner;
import org.apache.hadoop.hbase.ipc.PluggableBlockingQueue;
import org.apache.hadoop.hbase.ipc.PriorityFunction;
import org.apache.hadoop.hbase.ipc.RpcCall;

/**
 * RPC Handle: a call queue of HBase that divides handlers among tenants.
 *
 * <p>HBase makes one for each of its call queues. All of them are one to the scheduler: the processors, which calls wait for as
 * well as for handlers, are one resource. A handler that asks for its next call has ended the one before: that is when a call's
 * cost is known.
 *
 * <p>HBase has other handlers for {@code hbase:meta}, its other tables and administration. Their queue is of this class, too,
 * so that tenants share these handlers among themselves. It is apart, and no call of theirs waits for room at the processors.
 * Those for replication stay as they are.
 */
public final class FairCallQueue extends PluggableBlockingQueue implements ConfigurationObserver {
    private static final int HANDLE = Stage.HANDLE.ordinal();
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();
    private static final Scheduler SCHEDULER = Scheduler.here();
    private static final Tenants TENANTS = SCHEDULER.tenants();

    /** What all queues for users' calls share. */
    private static final Attempts ATTEMPTS = new Attempts(SCHEDULER.instance(0));

    private final boolean apart = isApart();
    private final Stages<Object> stages = apart ? SCHEDULER.queue() : SCHEDULER.instance(0);
    private final ThreadLocal<Serving> serving = new ThreadLocal<>();
    /** Calls of this queue that wait. */
    private final AtomicInteger size = new AtomicInteger();
    private volatile Settings settings;
    /** HMaster reads the same file, and has no tenants' data. What it does is no part of a region server. */
    private final boolean master;
    /** The name of a handler is known. */
    private volatile boolean told;

    /** What a handler works on. */
    private record Serving(Stages.Taken<Object> taken, RpcCall call, long since, long cpuSince) {}

    /** A call that waits, and the queue in which HBase counts it. */
    record Waiting(CallRunner call, AtomicInteger queue) {}

    /** HBase calls this by reflection. */
    public FairCallQueue(int maxQueueLength, PriorityFunction priority, Configuration conf) {
        super(maxQueueLength, priority, conf);
        master = priority != null && priority.getClass().getSimpleName().contains("Master");
        onConfigurationChange(conf);
        SCHEDULER.figures().install(Stage.HANDLE);
        Status.pluginIsThere(Status.VERSION);
        Status.publish();
        Ticks.begin();
    }

    /** Whether it is a queue of those that HBase divides by the kind of call: with handlers for each. */
    private static boolean isApart() {
        return StackWalker.getInstance().walk(frames -> frames.anyMatch(each -> each.getClassName().endsWith("RWQueueRpcExecutor")));
    }

    @Override
    public void onConfigurationChange(Configuration changed) {
        settings = new Settings(changed);
        // Until a controller says something, what the file says holds: a server may start while all are away.
        TENANTS.setWeights(settings.weights, settings.controllers.isEmpty());
        if (!master) {
            Controller.talk("regionserver", settings.controllers, settings.tokenFile, settings.tls);
        }
        Parts.setAttribute(settings.attribute);
        Parts.LOG.setPermits(settings.outstanding);
        Parts.NETWORK.setRate(settings.networkBytesPerSecond);
        Parts.UNREAD.setMost(settings.unreadBytes);
        stages.setMost(HANDLE, apart ? settings.mostHandlersApart : settings.mostHandlers);
        if (!apart) {
            stages.setRoom(HANDLE, settings.enabled && !master && Worker.isSeen() ? PROCESSORS : 0);
            ATTEMPTS.enable(settings.speculate);
        }
        Status.say(settings.toString());
        if (settings.enabled) {
            SCHEDULER.figures().enforce(Stage.HANDLE);
        } else {
            SCHEDULER.figures().release(Stage.HANDLE, Settings.ENABLED + " is false");
        }
    }

    @Override
    public boolean offer(CallRunner call) {
        Settings now = settings;
        int limit = Math.min(maxQueueLength, now.queueLength) * (apart ? 1 : now.queues);
        Tenants.Tenant tenant = Caller.of(call.getRpcCall(), now, TENANTS);
        boolean worthIt = !apart && ATTEMPTS.areWorthIt() && ATTEMPTS.isWorthIt(call, tenant);
        size.incrementAndGet();
        boolean waits = stages.add(HANDLE, Caller.tier(call.getRpcCall(), now, tenant), tenant.number, tenant.weight(), new Waiting(call, size), limit,
            worthIt);
        if (!waits) {
            size.decrementAndGet();
        }
        return waits;
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

    private CallRunner begin(Stages.Taken<Object> taken) {
        if (taken == null) {
            return null;
        }
        CallRunner call = taken(taken);
        Tenants.Tenant tenant = TENANTS.of(taken.tenant());
        Here.set(tenant.name);
        if (!told) {
            told = true;
            SCHEDULER.figures().works(Stage.HANDLE);
        }
        SCHEDULER.figures().served(Stage.HANDLE, tenant);
        SCHEDULER.limits().took(tenant.number, Caller.rows(call.getRpcCall()));
        if (taken.counts() || Parts.measured()) {
            Here.waited();
            // The runner forgets its call when it is over.
            serving.set(new Serving(taken, call.getRpcCall(), System.nanoTime(), THREADS.getCurrentThreadCpuTime()));
            if (taken.counts()) {
                Slice.begin(stages.running(), taken, serving.get().cpuSince);
            }
        }
        return call;
    }

    private static CallRunner taken(Stages.Taken<Object> taken) {
        Waiting waiting = (Waiting) taken.item;
        waiting.queue.decrementAndGet();
        return waiting.call;
    }

    /** The call that this handler took before is over. */
    private void settle() {
        Serving over = serving.get();
        if (over == null) {
            return;
        }
        serving.remove();
        Slice.end();
        Settings now = settings;
        long[] cost = new long[Resource.COUNT];
        // What a call waited for its turn below is not charged: who waits longer would have even less of what it waits for.
        cost[Resource.HANDLERS.ordinal()] = Math.max(0, System.nanoTime() - over.since - Here.waited()) / now.handlers;
        cost[Resource.CPU.ordinal()] = (THREADS.getCurrentThreadCpuTime() - over.cpuSince) / PROCESSORS;
        try {
            if (!Parts.NETWORK.paced()) {
                cost[Resource.NETWORK.ordinal()] = time(over.call.getResponseCellSize(), now.networkBytesPerSecond);
            }
            if (now.diskBytesPerSecond > 0) {
                cost[Resource.DISK.ordinal()] = time(over.call.getBlockBytesScanned(), now.diskBytesPerSecond);
            }
        } catch (RuntimeException | LinkageError unknown) {
            // The time of the handler and the CPU are charged.
        }
        stages.done(over.taken, cost);
        SCHEDULER.figures().used(TENANTS.of(over.taken.tenant()), cost);
    }

    private static long time(long bytes, long bytesPerSecond) {
        return bytesPerSecond == 0 ? 0 : (long) (1e9 * bytes / bytesPerSecond);
    }

    @Override
    public int size() {
        return Math.max(0, size.get());
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
        return calls().iterator();
    }

    private List<CallRunner> calls() {
        return stages.list(HANDLE).stream().map(Waiting.class::cast).filter(each -> each.queue == size).map(Waiting::call).toList();
    }

    @Override
    public Object[] toArray() {
        return calls().toArray();
    }

    @Override
    public <T> T[] toArray(T[] array) {
        return calls().toArray(array);
    }

    @Override
    public int drainTo(Collection<? super CallRunner> to) {
        return drainTo(to, Integer.MAX_VALUE);
    }

    @Override
    public int drainTo(Collection<? super CallRunner> to, int most) {
        int count = 0;
        for (; count < most; count++) {
            Stages.Taken<Object> taken = stages.poll(HANDLE);
            if (taken == null) {
                break;
            }
            stages.done(taken, new long[Resource.COUNT]);
            to.add(taken(taken));
        }
        return count;
    }

    @Override
    public void clear() {
        drainTo(new ArrayList<>());
    }

    @Override
    public boolean contains(Object call) {
        return calls().contains(call);
    }

    @Override
    public boolean containsAll(Collection<?> calls) {
        return calls().containsAll(calls);
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
