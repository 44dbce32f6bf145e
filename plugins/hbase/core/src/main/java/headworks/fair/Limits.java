package headworks.fair;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The most calls a second that a tenant may have here. A tenant that has had them waits at RPC Handle, alone. */
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
        Tenants.Tenant tenant = scheduler.tenants().of(name);
        if (tenant.number == scheduler.tenants().others().number) {
            return;
        }
        Limit before = perSecond > 0 ? byTenant.put(tenant.number, new Limit(perSecond)) : byTenant.remove(tenant.number);
        if (before != null) {
            release(tenant.number, before);
        }
    }

    /** A tenant's call has been taken. */
    public void took(int tenant) {
        Limit limit = byTenant.isEmpty() ? null : byTenant.get(tenant);
        if (limit == null) {
            return;
        }
        boolean hold;
        synchronized (limit) {
            limit.fill(System.nanoTime());
            limit.left--;
            hold = limit.left < 0 && !limit.held;
            limit.held |= hold;
        }
        if (hold) {
            scheduler.hold(Stage.HANDLE, tenant, Stages.Reason.LIMIT, true);
        }
    }

    /** Lets tenants go on that may have calls again. Often: this is how exact a limit is. */
    public void tick() {
        byTenant.forEach((tenant, limit) -> {
            boolean free;
            synchronized (limit) {
                limit.fill(System.nanoTime());
                free = limit.held && limit.left >= 0;
            }
            if (free) {
                release(tenant, limit);
            }
        });
    }

    private void release(int tenant, Limit limit) {
        boolean was;
        synchronized (limit) {
            was = limit.held;
            limit.held = false;
        }
        if (was) {
            scheduler.hold(Stage.HANDLE, tenant, Stages.Reason.LIMIT, false);
        }
    }
}
