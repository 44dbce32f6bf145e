package headworks.fair;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Responses that were handed over and that their clients have not taken yet: bytes, by tenant. A tenant that has too many of
 * them gets no handler until its clients have read some.
 *
 * <p>How large a response is, is known when it is made. So calls that have a handler count as if each made a response as large
 * as the tenant's largest of late. Together with what is unread they stay below the bound; one call may run in any case while
 * what is unread is below it.
 *
 * <p>A tenant may have a client that never reads again, and others that do. So after some seconds it may go beyond the bound, by
 * a little, again and again up to a part of the memory. Where one response has more than that little, it may not.
 */
public final class Unread implements Stages.Entry {
    /** A tenant may go beyond the bound after so long. */
    private static final long LONGEST_HOLD_NS = Gate.LONGEST_WAIT_NS;
    /** This part of the bound is the little by which it may. */
    private static final int BEYOND = 8;
    /** This part of the memory is the most that a tenant may have unread then. */
    private static final int OF_MEMORY = 8;
    /** What a tenant's largest response was is forgotten by so much with each smaller one. */
    private static final int MEMORY = 8;

    private final Scheduler scheduler;
    private final long longestHoldNs;
    private final long mostBeyond;
    /** Tenants that were not let in, and since when. Who may be let in again after a change is looked for here. */
    private final Map<Integer, Long> heldSince = new ConcurrentHashMap<>();
    /** The bound of tenants that may go beyond it. */
    private final Map<Integer, Long> beyond = new ConcurrentHashMap<>();
    private final Map<Key, Key> known = new ConcurrentHashMap<>();
    private final ReferenceQueue<Object> lost = new ReferenceQueue<>();
    private volatile long most;

    /** A response that may be forgotten: its connection was closed. */
    private static final class Key extends WeakReference<Object> {
        private final int hash;
        private final Tenants.Tenant tenant;
        private final long bytes;

        Key(Object response, ReferenceQueue<Object> lost, Tenants.Tenant tenant, long bytes) {
            super(response, lost);
            hash = System.identityHashCode(response);
            this.tenant = tenant;
            this.bytes = bytes;
        }

        @Override
        public int hashCode() {
            return hash;
        }

        @Override
        public boolean equals(Object other) {
            return this == other || other instanceof Key key && key.get() != null && key.get() == get();
        }
    }

    public Unread(Scheduler scheduler) {
        this(scheduler, LONGEST_HOLD_NS, Runtime.getRuntime().maxMemory() / OF_MEMORY);
    }

    Unread(Scheduler scheduler, long longestHoldNs, long mostBeyond) {
        this.scheduler = scheduler;
        this.longestHoldNs = longestHoldNs;
        this.mostBeyond = mostBeyond;
    }

    /** Sets how many bytes a tenant may have; 0: any number. */
    public void setMost(long bytes) {
        most = bytes;
        beyond.clear();
        scheduler.setEntry(Stage.HANDLE, bytes > 0 ? this : null);
        heldSince.keySet().forEach(number -> release(scheduler.tenants().of(number)));
    }

    /** A response is handed over. */
    public void add(Object response, Tenants.Tenant tenant, long bytes) {
        if (most == 0 || bytes == 0 || !scheduler.several()) {
            return;
        }
        forget();
        Key key = new Key(response, lost, tenant, bytes);
        if (known.putIfAbsent(key, key) == null) {
            tenant.expected = Math.max(bytes, tenant.expected - tenant.expected / MEMORY);
            tenant.unread.addAndGet(bytes);
        }
    }

    /** Its client has taken it, or is gone. */
    public void remove(Object response) {
        if (!known.isEmpty()) {
            settle(known.remove(new Key(response, null, null, 0)));
        }
    }

    @Override
    public boolean enters(int number) {
        Tenants.Tenant tenant = scheduler.tenants().of(number);
        if (begins(tenant)) {
            return true;
        }
        heldSince.putIfAbsent(number, System.nanoTime());
        // What it waits for may have ended at that moment, and who ended it did not see that it waits.
        return begins(tenant);
    }

    private boolean begins(Tenants.Tenant tenant) {
        int running;
        do {
            running = tenant.running.get();
            if (!fits(tenant, running)) {
                return false;
            }
        } while (!tenant.running.compareAndSet(running, running + 1));
        return true;
    }

    /** Whether one more call may run beside so many. */
    private boolean fits(Tenants.Tenant tenant, int running) {
        long bound = most;
        long unread = tenant.unread.get();
        if (bound == 0 || running == 0 && unread <= bound) {
            return true;
        }
        return unread + (running + 1L) * tenant.expected <= Math.max(bound, beyond.getOrDefault(tenant.number, 0L));
    }

    @Override
    public void leaves(int number) {
        Tenants.Tenant tenant = scheduler.tenants().of(number);
        tenant.running.decrementAndGet();
        releaseIfItFits(tenant);
    }

    /** Lets tenants go beyond the bound that were held for long, and forgets responses of closed connections. */
    public void tick() {
        forget();
        long now = System.nanoTime();
        heldSince.forEach((number, since) -> {
            if (now - since >= longestHoldNs) {
                Tenants.Tenant tenant = scheduler.tenants().of(number);
                // Its clients may get smaller responses now; none would tell while it is held.
                tenant.expected -= tenant.expected / MEMORY;
                beyond.put(number, Math.min(mostBeyond, tenant.unread.get() + most / BEYOND));
                release(tenant);
            }
        });
    }

    private void forget() {
        for (Object gone = lost.poll(); gone != null; gone = lost.poll()) {
            settle(known.remove(gone));
        }
    }

    private void settle(Key key) {
        if (key == null) {
            return;
        }
        if (key.tenant.unread.addAndGet(-key.bytes) <= most) {
            beyond.remove(key.tenant.number);
        }
        releaseIfItFits(key.tenant);
    }

    private void releaseIfItFits(Tenants.Tenant tenant) {
        if (!heldSince.isEmpty() && fits(tenant, tenant.running.get())) {
            release(tenant);
        }
    }

    private void release(Tenants.Tenant tenant) {
        if (heldSince.remove(tenant.number) != null) {
            scheduler.hold(Stage.HANDLE, tenant.number, Stages.Reason.UNREAD, false);
        }
    }
}
