package headworks.hbase;

import headworks.fair.Guess;
import headworks.fair.Here;
import headworks.fair.Parts;
import headworks.fair.Resource;
import headworks.fair.Scheduler;
import headworks.fair.Stage;
import headworks.fair.Stages;
import headworks.fair.Tenants;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import org.apache.hadoop.hbase.ipc.CallRunner;
import org.apache.hadoop.hbase.ipc.HeadworksAttempt;

/**
 * Speculative execution for what a get will use (dissertation, section 4.3.2). A get that comes while no
 * handler is free is tried beside them, by as many threads as there are processors. If a block is not in
 * the cache, the attempt ends and the get waits for a handler again, before its tenant's others.
 *
 * <p>An attempt that is answered is work that was to be done anyway, so it does not wait for idle
 * processors. One that ends in vain is waste: {@link Guess} leaves those out that mostly do.
 */
final class Attempts {
    private static final int HANDLE = Stage.HANDLE.ordinal();
    private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();
    private static final int FEWEST_THREADS = 2;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private final Stages<Object> stages;
    private final Guess guess = new Guess();
    private volatile boolean enabled;
    private boolean begun;

    Attempts(Stages<Object> stages) {
        this.stages = stages;
    }

    /** Switches them on or off. */
    synchronized void enable(boolean on) {
        enabled = on;
        int count = Math.max(FEWEST_THREADS, PROCESSORS);
        Scheduler.here().figures().tries(Stage.HANDLE, on ? count : 0);
        if (on && !begun) {
            begun = true;
            for (int number = 0; number < count; number++) {
                Thread thread = new Thread(this::run, "headworks-attempts-" + number);
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    /** Whether attempts are made at all. */
    boolean areWorthIt() {
        return enabled && Parts.seesFiles() && Scheduler.here().several();
    }

    /** Whether this call is to be tried if no handler is free. */
    boolean isWorthIt(CallRunner runner, Tenants.Tenant tenant) {
        try {
            int region = HeadworksAttempt.region(runner);
            return region != HeadworksAttempt.NO_GET && guess.isWorthIt(tenant.number, region);
        } catch (RuntimeException | LinkageError otherVersion) {
            stop(otherVersion);
            return false;
        }
    }

    private void stop(Throwable failed) {
        enabled = false;
        Scheduler.here().figures().tries(Stage.HANDLE, 0);
        System.err.println("headworks: no more attempts at gets without files: " + failed);
    }

    private void run() {
        while (true) {
            try {
                attempt(stages.attempt(HANDLE));
            } catch (InterruptedException stop) {
                return;
            } catch (RuntimeException | LinkageError failed) {
                stop(failed);
                return;
            }
        }
    }

    private void attempt(Stages.Taken<Object> taken) {
        FairCallQueue.Waiting waiting = (FairCallQueue.Waiting) taken.item;
        CallRunner runner = waiting.call();
        Tenants.Tenant tenant = Scheduler.here().tenants().of(taken.tenant());
        Here.set(tenant.name);
        long since = THREADS.getCurrentThreadCpuTime();
        boolean answered;
        int region;
        try {
            // A call that was answered is forgotten by its runner.
            region = HeadworksAttempt.region(runner);
            answered = HeadworksAttempt.run(runner);
        } catch (Throwable failed) {
            // A handler serves it. Memory may have run out, too.
            stages.putBack(taken, new long[Resource.COUNT]);
            throw failed;
        }
        long[] cost = new long[Resource.COUNT];
        cost[Resource.CPU.ordinal()] = (THREADS.getCurrentThreadCpuTime() - since) / PROCESSORS;
        Scheduler.here().figures().attempts(answered);
        guess.learn(tenant.number, region, answered);
        if (answered) {
            waiting.queue().decrementAndGet();
            stages.done(taken, cost);
            Scheduler.here().figures().served(Stage.HANDLE, tenant);
            Scheduler.here().limits().took(tenant.number, 1);
        } else {
            stages.putBack(taken, cost);
        }
    }
}
