package headworks.fair;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Responses that were handed over and that their clients have not taken yet: bytes, by tenant. A tenant
 * that has too many of them gets no handler until its clients have read some.
 */
public final class Unread {
    /** A tenant is let go on after so long, whatever its clients read. */
    private static final long LONGEST_HOLD_NS = Gate.LONGEST_WAIT_NS;

    private final Scheduler scheduler;
    private final Map<Integer, Long> heldSince = new ConcurrentHashMap<>();
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
        this.scheduler = scheduler;
    }

    /** Sets how many bytes a tenant may have; 0: any number. */
    public void setMost(long bytes) {
        most = bytes;
        heldSince.keySet().forEach(number -> release(scheduler.tenants().of(number)));
    }

    /** A response is handed over. */
    public void add(Object response, Tenants.Tenant tenant, long bytes) {
        if (most == 0 || bytes == 0 || !scheduler.several()) {
            return;
        }
        forget();
        Key key = new Key(response, lost, tenant, bytes);
        if (known.putIfAbsent(key, key) != null) {
            return;
        }
        // The count and the hold change together: a tenant whose last response goes out meanwhile is let go.
        synchronized (tenant) {
            if (tenant.unread.addAndGet(bytes) > most && heldSince.putIfAbsent(tenant.number, System.nanoTime()) == null) {
                scheduler.hold(Stage.HANDLE, tenant.number, Stages.Reason.UNREAD, true);
            }
        }
    }

    /** Its client has taken it, or is gone. */
    public void remove(Object response) {
        if (!known.isEmpty()) {
            settle(known.remove(new Key(response, null, null, 0)));
        }
    }

    /** Lets tenants go on that were held for long, and forgets responses of closed connections. */
    public void tick() {
        forget();
        long now = System.nanoTime();
        heldSince.forEach((number, since) -> {
            if (now - since > LONGEST_HOLD_NS) {
                release(scheduler.tenants().of(number));
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
        synchronized (key.tenant) {
            if (key.tenant.unread.addAndGet(-key.bytes) <= most) {
                release(key.tenant);
            }
        }
    }

    private void release(Tenants.Tenant tenant) {
        synchronized (tenant) {
            if (heldSince.remove(tenant.number) != null) {
                scheduler.hold(Stage.HANDLE, tenant.number, Stages.Reason.UNREAD, false);
            }
        }
    }
}
