package headworks.fair;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * One instance of a scheduler that several stages share. Each stage has queues, by tenant.
 * What a tenant uses at one stage counts at all of them, so no stage hides contention from another.
 *
 * <p>Each instance has one lock. A server has several instances: upstream puts a request into a random
 * one, and each downstream thread takes from the one that it was assigned (dissertation, section 4.4.1).
 *
 * <p>A request is charged what its tenant's requests usually cost when it is taken: others must not
 * wait for its end. {@link #done} settles the difference. Too little is charged at once. Too much is
 * left out of the tenant's next charges.
 *
 * <p>While only one tenant was ever seen, nothing is charged, and the order is first in, first out.
 */
public final class Stages<T> {
    /** An estimate moves by one eighth of the difference to each cost that is seen. */
    private static final int MEMORY = 8;

    private final int stages;
    private final int resources;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition[] filled;
    private final int[] queued;
    private final Nested order;
    private final List<List<Flow<T>>> flows = new ArrayList<>();
    private int seen;

    /** What was taken. It goes back to {@link #done} when its cost is known. */
    public static final class Taken<T> {
        public final T item;
        private final Flow<T> flow;
        private final int stage;
        /** What it was charged, by resource; {@code null} while one tenant is alone. */
        private final long[] charged;

        private Taken(T item, Flow<T> flow, int stage, long[] charged) {
            this.item = item;
            this.flow = flow;
            this.stage = stage;
            this.charged = charged;
        }

        /** The tenant's number. */
        public int tenant() {
            return flow.tenant;
        }

        /** Whether {@link Stages#done} needs the cost. */
        public boolean counts() {
            return charged != null;
        }
    }

    /** A tenant in a tier. */
    private static final class Flow<T> {
        final int tier;
        final int tenant;
        final ArrayDeque<T>[] items;
        /** Usual cost of a request, by stage and resource. */
        final long[][] usual;
        /** What was charged too much, by resource. */
        final long[] credit;

        @SuppressWarnings({"unchecked", "rawtypes"})
        Flow(int tier, int tenant, int stages, int resources) {
            this.tier = tier;
            this.tenant = tenant;
            items = new ArrayDeque[stages];
            usual = new long[stages][];
            credit = new long[resources];
        }
    }

    public Stages(int stages, int resources) {
        this.stages = stages;
        this.resources = resources;
        filled = new Condition[stages];
        Arrays.setAll(filled, stage -> lock.newCondition());
        queued = new int[stages];
        order = new Nested(stages, resources);
        for (Tier tier : Tier.values()) {
            flows.add(new ArrayList<>());
        }
    }

    /** Whether a second tenant was ever seen. This one counts as seen. */
    public boolean shared(Tier tier, int tenant) {
        lock.lock();
        try {
            flow(tier.ordinal(), tenant);
            return seen > 1;
        } finally {
            lock.unlock();
        }
    }

    /** Puts something into a tenant's queue. Refuses if the stage has {@code limit} of them; see {@link #full}. */
    public boolean add(int stage, Tier tier, int tenant, int weight, T item, int limit) {
        lock.lock();
        try {
            Flow<T> flow = flow(tier.ordinal(), tenant);
            ArrayDeque<T> items = flow.items[stage];
            if (items == null) {
                items = flow.items[stage] = new ArrayDeque<>();
            }
            if (full(stage, items.size(), limit)) {
                return false;
            }
            order.setWeight(flow.tier, tenant, weight);
            items.add(item);
            queued[stage]++;
            if (items.size() == 1) {
                order.arrive(flow.tier, tenant, stage);
            }
            filled[stage].signal();
            return true;
        } finally {
            lock.unlock();
        }
    }

    /**
     * One tenant alone may fill the queue. Of several, each may have its equal part of half of it, and
     * more while the half is not full. The other half keeps the server from refusing everybody.
     */
    private boolean full(int stage, int own, int limit) {
        int half = Math.max(1, limit / 2);
        return queued[stage] >= limit || seen > 1 && queued[stage] >= half && own >= half / Math.max(1, order.waiting());
    }

    /** Takes what is next; waits until there is something. */
    public Taken<T> take(int stage) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            Taken<T> taken = next(stage);
            while (taken == null) {
                filled[stage].await();
                taken = next(stage);
            }
            return taken;
        } finally {
            lock.unlock();
        }
    }

    /** Takes what is next, or {@code null} if there is nothing for so long. */
    public Taken<T> poll(int stage, long timeoutNs) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            Taken<T> taken = next(stage);
            for (long left = timeoutNs; taken == null && left > 0; taken = next(stage)) {
                left = filled[stage].awaitNanos(left);
            }
            return taken;
        } finally {
            lock.unlock();
        }
    }

    /** Takes what is next, or {@code null} if there is nothing. */
    public Taken<T> poll(int stage) {
        lock.lock();
        try {
            return next(stage);
        } finally {
            lock.unlock();
        }
    }

    /** What was taken is over, and cost this much: for each resource, the time for which all of it would be busy. */
    public void done(Taken<T> taken, long[] costNs) {
        if (taken.charged == null) {
            return;
        }
        lock.lock();
        try {
            Flow<T> flow = taken.flow;
            long[] usual = flow.usual[taken.stage];
            for (int resource = 0; resource < resources; resource++) {
                long cost = Math.max(0, costNs[resource]);
                long missing = cost - taken.charged[resource];
                if (missing > 0) {
                    order.charge(flow.tier, flow.tenant, resource, missing);
                } else {
                    flow.credit[resource] = Math.min(Fair.DOVETAIL_NS, flow.credit[resource] - missing);
                }
                usual[resource] += usual[resource] == 0 ? cost : (cost - usual[resource]) / MEMORY;
            }
        } finally {
            lock.unlock();
        }
    }

    /** Number of things queued at a stage. */
    public int size(int stage) {
        lock.lock();
        try {
            return queued[stage];
        } finally {
            lock.unlock();
        }
    }

    /** What is queued at a stage, tenant by tenant. */
    public List<T> list(int stage) {
        lock.lock();
        try {
            List<T> all = new ArrayList<>(queued[stage]);
            for (List<Flow<T>> tier : flows) {
                for (Flow<T> flow : tier) {
                    if (flow != null && flow.items[stage] != null) {
                        all.addAll(flow.items[stage]);
                    }
                }
            }
            return all;
        } finally {
            lock.unlock();
        }
    }

    private Taken<T> next(int stage) {
        int tier = order.choose(stage);
        if (tier < 0) {
            return null;
        }
        Flow<T> flow = flows.get(tier).get(order.chosenFlow());
        T item = flow.items[stage].poll();
        queued[stage]--;
        long[] charged = seen > 1 ? charge(flow, stage) : null;
        if (flow.items[stage].isEmpty()) {
            order.leave(tier, flow.tenant, stage);
        }
        return new Taken<>(item, flow, stage, charged);
    }

    /** Charges the usual cost, less what was charged too much before. */
    private long[] charge(Flow<T> flow, int stage) {
        order.served(flow.tier, flow.tenant);
        if (flow.usual[stage] == null) {
            flow.usual[stage] = new long[resources];
        }
        long[] charged = flow.usual[stage].clone();
        for (int resource = 0; resource < resources; resource++) {
            long credit = Math.min(charged[resource], flow.credit[resource]);
            flow.credit[resource] -= credit;
            order.charge(flow.tier, flow.tenant, resource, charged[resource] - credit);
        }
        return charged;
    }

    private Flow<T> flow(int tier, int tenant) {
        List<Flow<T>> all = flows.get(tier);
        while (all.size() <= tenant) {
            all.add(null);
        }
        Flow<T> flow = all.get(tenant);
        if (flow == null) {
            flow = new Flow<>(tier, tenant, stages, resources);
            all.set(tenant, flow);
            order.grow(tier, tenant);
            seen++;
        }
        return flow;
    }
}
