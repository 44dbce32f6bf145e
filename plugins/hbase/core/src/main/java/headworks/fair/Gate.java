package headworks.fair;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * A stage whose threads bring their own work: each waits for a permit, in fair order, works and gives
 * it back. A permit is for one item that needs nothing else. It is never held while a network is waited
 * for: a thread that holds one permit and waits for another stops the server.
 *
 * <p>While one tenant was seen, no thread waits. A thread waits for {@link #LONGEST_WAIT_NS} at most.
 */
public final class Gate {
    /** After so long a thread goes on without a permit. */
    public static final long LONGEST_WAIT_NS = 5_000_000_000L;

    private final Stages<Waiter> stages = new Stages<>(1, Resource.COUNT);
    private final AtomicInteger free;
    private final AtomicLong passed = new AtomicLong();
    private final long longestWaitNs;

    /** A thread that waits, or holds a permit. */
    public static final class Waiter {
        private static final int QUEUED = 0;
        private static final int GRANTED = 1;
        private static final int GONE = 2;

        private final Thread thread = Thread.currentThread();
        private final AtomicInteger state = new AtomicInteger(QUEUED);
        private Stages.Taken<Waiter> taken;
    }

    public Gate(int permits) {
        this(permits, LONGEST_WAIT_NS);
    }

    Gate(int permits, long longestWaitNs) {
        free = new AtomicInteger(permits);
        this.longestWaitNs = longestWaitNs;
    }

    /** Waits for a permit. {@code null}: the thread goes on without one. */
    public Waiter enter(Tier tier, Tenants.Tenant tenant) {
        if (!stages.shared(tier, tenant.number)) {
            return null;
        }
        Waiter waiter = new Waiter();
        stages.add(0, tier, tenant.number, tenant.weight(), waiter, Integer.MAX_VALUE);
        grant();
        long end = System.nanoTime() + longestWaitNs;
        while (waiter.state.get() == Waiter.QUEUED) {
            long left = end - System.nanoTime();
            // A server interrupts threads when it stops: they go on, and keep the mark.
            boolean over = left <= 0 || Thread.currentThread().isInterrupted();
            if (over && waiter.state.compareAndSet(Waiter.QUEUED, Waiter.GONE)) {
                passed.incrementAndGet();
                return null;
            }
            LockSupport.parkNanos(this, left);
        }
        return waiter;
    }

    /** Gives the permit back. The work cost this much, by resource. */
    public void leave(Waiter waiter, long[] costNs) {
        if (waiter != null) {
            stages.done(waiter.taken, costNs);
            free.incrementAndGet();
            grant();
        }
    }

    /** Threads that went on without a permit because they had waited too long, or were interrupted. */
    public long passed() {
        return passed.get();
    }

    /** While a permit is free and a thread waits, the next one gets it. */
    private void grant() {
        while (stages.size(0) > 0 && reserve()) {
            Stages.Taken<Waiter> taken = stages.poll(0);
            if (taken == null) {
                free.incrementAndGet();
                continue;
            }
            Waiter next = taken.item;
            next.taken = taken;
            if (next.state.compareAndSet(Waiter.QUEUED, Waiter.GRANTED)) {
                LockSupport.unpark(next.thread);
            } else {
                stages.done(taken, new long[Resource.COUNT]);
                free.incrementAndGet();
            }
        }
    }

    private boolean reserve() {
        return free.getAndUpdate(count -> Math.max(0, count - 1)) > 0;
    }
}
