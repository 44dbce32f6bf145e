package headworks.fair;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * A stage whose threads bring their own work: each waits for a permit, in fair order, works and gives
 * it back. A permit is for one item. A thread that holds one waits for no other: else the server stops.
 *
 * <p>While one tenant was seen, no thread waits. A thread waits for {@link #LONGEST_WAIT_NS} at most.
 */
public final class Gate {
    /** After so long a thread goes on without a permit. */
    public static final long LONGEST_WAIT_NS = 5_000_000_000L;

    private final Scheduler scheduler;
    private final Stage stage;
    private final Stages<Object> instance;
    /** Permits that are free; below zero after some were taken away. Guarded by this. */
    private int free;
    private final long longestWaitNs;
    private volatile int permits;
    /** The name of a thread is known. */
    private volatile boolean told;

    /** A thread that waits, or holds a permit. */
    public static final class Waiter {
        private static final int QUEUED = 0;
        private static final int GRANTED = 1;
        private static final int GONE = 2;

        private final Thread thread = Thread.currentThread();
        private final AtomicInteger state = new AtomicInteger(QUEUED);
        private final Tier tier;
        private final Tenants.Tenant tenant;
        private Stages.Taken<Object> taken;

        private Waiter(Tier tier, Tenants.Tenant tenant) {
            this.tier = tier;
            this.tenant = tenant;
        }
    }

    public Gate(Scheduler scheduler, Stage stage, int permits) {
        this(scheduler, stage, permits, LONGEST_WAIT_NS);
    }

    Gate(Scheduler scheduler, Stage stage, int permits, long longestWaitNs) {
        this.scheduler = scheduler;
        this.stage = stage;
        this.instance = scheduler.of(stage);
        this.permits = permits;
        this.longestWaitNs = longestWaitNs;
        free = permits;
        if (permits > 0) {
            scheduler.figures().enforce(stage, permits);
        }
    }

    /** Sets the number of permits. With none, no thread waits. */
    public synchronized void setPermits(int count) {
        free += count - permits;
        permits = count;
        if (count > 0) {
            scheduler.figures().enforce(stage, count);
        } else {
            scheduler.figures().release(stage, "switched off");
        }
        grant(0);
    }

    public int permits() {
        return permits;
    }

    /** Waits for a permit. {@code null}: the thread goes on without one. */
    public Waiter enter(Tier tier, Tenants.Tenant tenant) {
        boolean alone = !scheduler.several() && (tenant.nameless && tier == Tier.USERS || !instance.shared(tier, tenant.number));
        if (alone || permits == 0) {
            return null;
        }
        if (!told) {
            told = true;
            scheduler.figures().works(stage);
        }
        Waiter waiter = new Waiter(tier, tenant);
        instance.add(stage.ordinal(), tier, tenant.number, tenant.weight(), waiter, Integer.MAX_VALUE);
        grant(0);
        if (waiter.state.get() == Waiter.QUEUED) {
            scheduler.figures().waits(stage);
            await(waiter);
        }
        return waiter.state.get() == Waiter.GRANTED ? waiter : null;
    }

    private void await(Waiter waiter) {
        long since = System.nanoTime();
        long end = since + longestWaitNs;
        while (waiter.state.get() == Waiter.QUEUED) {
            long left = end - System.nanoTime();
            // A server interrupts threads when it stops: they go on, and keep the mark.
            boolean over = left <= 0 || Thread.currentThread().isInterrupted();
            if (over && waiter.state.compareAndSet(Waiter.QUEUED, Waiter.GONE)) {
                scheduler.figures().passes(stage);
                break;
            }
            LockSupport.parkNanos(this, left);
        }
        Here.waited(System.nanoTime() - since);
    }

    /** Gives the permit back. The work cost this much of one resource. */
    public void leave(Waiter waiter, Resource resource, long costNs) {
        if (waiter != null) {
            long ofAll = costNs / Math.max(1, permits);
            long[] cost = new long[Resource.COUNT];
            cost[resource.ordinal()] = scheduler.part(ofAll);
            instance.done(waiter.taken, cost);
            scheduler.chargeOthers(instance, waiter.tier, waiter.tenant, resource, cost[resource.ordinal()]);
            cost[resource.ordinal()] = ofAll;
            scheduler.figures().served(stage, waiter.tenant);
            scheduler.figures().used(waiter.tenant, cost);
            grant(1);
        }
    }

    /**
     * While a permit is free and a thread waits, the next one gets it. Where there are no permits, all go
     * on. One thread at a time does so: while another looks for who waits, a free permit seems to be taken,
     * and who came at that moment would be forgotten.
     */
    private synchronized void grant(int returned) {
        free += returned;
        boolean open = permits == 0;
        while (open || free > 0) {
            Stages.Taken<Object> taken = instance.poll(stage.ordinal());
            if (taken == null) {
                return;
            }
            Waiter next = (Waiter) taken.item;
            next.taken = taken;
            if (next.state.compareAndSet(Waiter.QUEUED, open ? Waiter.GONE : Waiter.GRANTED)) {
                free -= open ? 0 : 1;
                LockSupport.unpark(next.thread);
            }
            if (next.state.get() == Waiter.GONE) {
                instance.done(taken, new long[Resource.COUNT]);
            }
        }
    }
}
