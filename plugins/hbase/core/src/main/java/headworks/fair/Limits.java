package headworks.fair;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The most requests a second that a tenant may have here. Each row of a batch is one. A tenant that has had them waits at RPC
 * Handle, alone.
 */
public final class Limits {
    /** What may be had at once after a pause, in seconds of the limit. */
    private static final double BURST_S = 0.1;

    private final Scheduler scheduler;
    private final Map<Integer, Limit> byTenant = new ConcurrentHashMap<>();

    private static final class Limit {
        final double perSecond;
        /** Calls that may still be had. Below zero: the tenant is held. */
        double left;
        long at = System.nanoTime();
        boolean held;
        /** Another limit, or none, is in its place. */
        boolean over;

        Limit(double perSecond) {
            this.perSecond = perSecond;
            left = burst();
        }

        double burst() {
            return Math.max(1, BURST_S * perSecond);
        }

        void fill(long now) {
            left = Math.min(burst(), left + (now - at) * perSecond / 1e9);
            at = now;
        }
    }

    Limits(Scheduler scheduler) {
        this.scheduler = scheduler;
    }

    /** Sets a tenant's limit; 0: none. */
    public void set(String name, double perSecond) {
        // Tenants have a lock that is taken before this one.
        Tenants.Tenant tenant = scheduler.tenants().of(name);
        if (tenant.number == scheduler.tenants().others().number) {
            return;
        }
        synchronized (this) {
            forget(tenant);
            if (perSecond > 0) {
                byTenant.put(tenant.number, new Limit(perSecond));
            }
        }
    }

    /** The tenant has none. */
    synchronized void forget(Tenants.Tenant tenant) {
        Limit before = byTenant.remove(tenant.number);
        if (before != null) {
            synchronized (before) {
                before.over = true;
                release(tenant.number, before);
            }
        }
    }

    /** A tenant's call has been taken, with so many requests. */
    public void took(int tenant, int requests) {
        Limit limit = byTenant.isEmpty() ? null : byTenant.get(tenant);
        if (limit == null) {
            return;
        }
        // Under the lock to the end: else a tenant that may go on meanwhile is held for ever.
        synchronized (limit) {
            limit.fill(System.nanoTime());
            limit.left -= requests;
            if (limit.left < 0 && !limit.held && !limit.over) {
                limit.held = true;
                scheduler.hold(Stage.HANDLE, tenant, Stages.Reason.LIMIT, true);
            }
        }
    }

    /** Lets tenants go on that may have calls again. Often: this is how exact a limit is. */
    public void tick() {
        byTenant.forEach((tenant, limit) -> {
            synchronized (limit) {
                limit.fill(System.nanoTime());
                if (limit.left >= 0) {
                    release(tenant, limit);
                }
            }
        });
    }

    private void release(int tenant, Limit limit) {
        if (limit.held) {
            limit.held = false;
            scheduler.hold(Stage.HANDLE, tenant, Stages.Reason.LIMIT, false);
        }
    }
}
