package headworks.hbase;

import headworks.fair.Here;
import headworks.fair.Parts;
import headworks.fair.Resource;
import headworks.fair.Scheduler;
import headworks.fair.Stage;
import headworks.fair.Stages;
import headworks.fair.Tenants;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.hadoop.hbase.ipc.CallRunner;
import org.apache.hadoop.hbase.ipc.HeadworksAttempt;

/**
 * Speculative execution for what a get will use (dissertation, section 4.3.2). While all handlers are busy
 * and processors are not, a get of a tenant that mostly needs no file is tried beside the handlers. If a
 * block is not in the cache, the attempt ends and the get waits for a handler again, before its tenant's
 * others.
 */
final class Attempts extends Thread {
    private static final int HANDLE = Stage.HANDLE.ordinal();
    private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final com.sun.management.OperatingSystemMXBean SYSTEM =
        (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    /** Above this load the processors are not idle. */
    private static final double BUSY = 0.85;
    private static final long LOOK_NS = 50_000_000;
    private static final int PAUSE_MS = 2;
    /** A tenant with fewer gets from the cache is tried now and then only. */
    private static final float MOSTLY = 0.25f;
    private static final int NOW_AND_THEN = 64;
    /** The estimate moves by so much of the difference to each attempt. */
    private static final float STEP = 1 / 16f;

    private final Stages<Object> stages;
    /** Gets that need a file. */
    private final Set<CallRunner> cold = Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));
    private volatile boolean enabled;
    private long lookedAt;
    private boolean busy;
    private int turn;

    Attempts(Stages<Object> stages) {
        super("headworks-attempts");
        this.stages = stages;
        setDaemon(true);
    }

    synchronized void enable(boolean on) {
        enabled = on;
        if (on && getState() == State.NEW) {
            start();
        }
    }

    @Override
    public void run() {
        while (true) {
            try {
                boolean idle = enabled && Parts.seesFiles() && Scheduler.here().several() && stages.size(HANDLE) > 0 && !busy();
                Stages.Taken<Object> taken = idle ? stages.attempt(HANDLE, this::isWorthIt) : null;
                if (taken == null) {
                    Thread.sleep(PAUSE_MS);
                } else {
                    attempt(taken);
                }
            } catch (InterruptedException stop) {
                return;
            } catch (RuntimeException | LinkageError failed) {
                enabled = false;
                System.err.println("headworks: no more attempts at gets without files: " + failed);
            }
        }
    }

    private boolean busy() {
        long now = System.nanoTime();
        if (lookedAt == 0 || now - lookedAt > LOOK_NS) {
            lookedAt = now;
            busy = SYSTEM.getCpuLoad() > BUSY;
        }
        return busy;
    }

    private boolean isWorthIt(Object item) {
        CallRunner runner = (CallRunner) item;
        return HeadworksAttempt.isGet(runner) && !cold.contains(runner);
    }

    private void attempt(Stages.Taken<Object> taken) {
        CallRunner runner = (CallRunner) taken.item;
        Tenants.Tenant tenant = Scheduler.here().tenants().of(taken.tenant());
        if (tenant.cached < MOSTLY && turn++ % NOW_AND_THEN != 0) {
            cold.add(runner);
            stages.putBack(taken, new long[Resource.COUNT]);
            return;
        }
        Here.set(tenant.name);
        long since = THREADS.getCurrentThreadCpuTime();
        boolean answered;
        try {
            answered = HeadworksAttempt.run(runner);
        } catch (RuntimeException | LinkageError failed) {
            // A handler serves it.
            stages.putBack(taken, new long[Resource.COUNT]);
            throw failed;
        }
        long[] cost = new long[Resource.COUNT];
        cost[Resource.CPU.ordinal()] = (THREADS.getCurrentThreadCpuTime() - since) / PROCESSORS;
        Scheduler.here().figures().attempts(answered);
        tenant.cached += STEP * ((answered ? 1 : 0) - tenant.cached);
        if (answered) {
            stages.done(taken, cost);
            Scheduler.here().figures().served(Stage.HANDLE, tenant);
        } else {
            cold.add(runner);
            stages.putBack(taken, cost);
        }
    }
}
