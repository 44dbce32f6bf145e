package headworks.fair;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Predicate;

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
    /** So many of a tenant's requests are looked at for one that is worth an attempt. */
    private static final int ATTEMPTS = 32;
    private static final int REASONS = Reason.values().length;

    private final int stages;
    private final int resources;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition[] filled;
    private final int[] queued;
    private final Nested order;
    private final List<List<Flow<T>>> flows = new ArrayList<>();
    private final Seen seen;

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

        /** Where it was taken. */
        public Stage stage() {
            return Stage.values()[stage];
        }

        Tier tier() {
            return Tier.values()[flow.tier];
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
        /** Stages at which it is held, and why, by bit. */
        int held;

        boolean isHeld(int stage) {
            return (held >> REASONS * stage & (1 << REASONS) - 1) != 0;
        }

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
        this(stages, resources, new Seen());
    }

    Stages(int stages, int resources, Seen seen) {
        this.seen = seen;
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
        return seen.note(tier.ordinal(), tenant);
    }

    /** Puts something into a tenant's queue. Refuses if the stage has {@code limit} of them; see {@link #full}. */
    public boolean add(int stage, Tier tier, int tenant, int weight, T item, int limit) {
        lock.lock();
        try {
            Flow<T> flow = flow(tier.ordinal(), tenant);
            ArrayDeque<T> items = flow.items[stage];
            if (items == null) {
                items = flow.items[stage] = new ArrayDeque<>(2);
            }
            if (full(stage, items.size(), limit)) {
                return false;
            }
            order.setWeight(flow.tier, tenant, weight);
            items.add(item);
            queued(flow, stage);
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
        return queued[stage] >= limit || seen.several() && queued[stage] >= half && own >= half / Math.max(1, order.waiting());
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
            settle(taken, costNs);
            long[] usual = taken.flow.usual[taken.stage];
            for (int resource = 0; resource < resources; resource++) {
                long cost = Math.max(0, costNs[resource]);
                usual[resource] += usual[resource] == 0 ? cost : (cost - usual[resource]) / MEMORY;
            }
        } finally {
            lock.unlock();
        }
    }

    /** Charges what is missing. What was charged too much is left out of the next charges. */
    private void settle(Taken<T> taken, long[] costNs) {
        Flow<T> flow = taken.flow;
        for (int resource = 0; resource < resources; resource++) {
            long missing = Math.max(0, costNs[resource]) - taken.charged[resource];
            if (missing > 0) {
                order.charge(flow.tier, flow.tenant, resource, missing);
            } else {
                flow.credit[resource] = Math.min(Fair.DOVETAIL_NS, flow.credit[resource] - missing);
            }
        }
    }

    /** Takes what is next at either of two stages, or {@code null}: both wait for the same resource. */
    public Taken<T> poll(int stage, int other) {
        lock.lock();
        try {
            return next(order.before(other, stage) ? other : stage);
        } finally {
            lock.unlock();
        }
    }

    /** Takes the first request that is worth an attempt, of the tenant that is next of those that have one. */
    public Taken<T> attempt(int stage, Predicate<T> worth) {
        lock.lock();
        try {
            Flow<T> best = null;
            T found = null;
            for (Flow<T> flow : flows.get(Tier.USERS.ordinal())) {
                boolean later = flow == null || flow.items[stage] == null || flow.isHeld(stage)
                    || best != null && order.dominant(flow.tier, best.tenant) <= order.dominant(flow.tier, flow.tenant);
                Optional<T> item = later ? Optional.empty() : flow.items[stage].stream().limit(ATTEMPTS).filter(worth).findFirst();
                if (item.isPresent()) {
                    best = flow;
                    found = item.get();
                }
            }
            if (best == null) {
                return null;
            }
            best.items[stage].remove(found);
            return taken(found, best, stage);
        } finally {
            lock.unlock();
        }
    }

    /**
     * What was taken waits again, before its tenant's others. The attempt cost this much. The request is
     * charged anew when it is taken again, and what such a request usually costs is not learnt from it.
     */
    public void putBack(Taken<T> taken, long[] costNs) {
        lock.lock();
        try {
            if (taken.charged != null) {
                settle(taken, costNs);
            }
            Flow<T> flow = taken.flow;
            flow.items[taken.stage].addFirst(taken.item);
            queued(flow, taken.stage);
        } finally {
            lock.unlock();
        }
    }

    /** What was done for a tenant without a queue cost this much, by resource. */
    public void charge(Tier tier, int tenant, int weight, Resource resource, long costNs) {
        lock.lock();
        try {
            Flow<T> flow = flow(tier.ordinal(), tenant);
            order.setWeight(flow.tier, tenant, weight);
            order.resume(flow.tier, tenant);
            order.served(flow.tier, tenant);
            order.charge(flow.tier, tenant, resource.ordinal(), costNs);
        } finally {
            lock.unlock();
        }
    }

    /** Why a tenant is held. While any reason holds, it is. */
    public enum Reason { UNREAD, LIMIT }

    /** Keeps a tenant's things at a stage: others are taken. Or lets them go on. */
    public void hold(int stage, Tier tier, int tenant, Reason reason, boolean held) {
        lock.lock();
        try {
            Flow<T> flow = flow(tier.ordinal(), tenant);
            boolean was = flow.isHeld(stage);
            int bit = 1 << REASONS * stage + reason.ordinal();
            flow.held = held ? flow.held | bit : flow.held & ~bit;
            boolean is = flow.isHeld(stage);
            if (was != is && flow.items[stage] != null && !flow.items[stage].isEmpty()) {
                order.hold(flow.tier, tenant, stage, is);
                filled[stage].signalAll();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Whether a tenant has something queued, at any stage. */
    public boolean wants(Tier tier, int tenant) {
        lock.lock();
        try {
            List<Flow<T>> all = flows.get(tier.ordinal());
            return tenant < all.size() && all.get(tenant) != null && order.waits(tier.ordinal(), tenant);
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

    private void queued(Flow<T> flow, int stage) {
        queued[stage]++;
        if (flow.items[stage].size() == 1) {
            order.arrive(flow.tier, flow.tenant, stage, !flow.isHeld(stage));
        }
        filled[stage].signal();
    }

    private Taken<T> next(int stage) {
        int tier = order.choose(stage);
        if (tier < 0) {
            return null;
        }
        Flow<T> flow = flows.get(tier).get(order.chosenFlow());
        return taken(flow.items[stage].poll(), flow, stage);
    }

    private Taken<T> taken(T item, Flow<T> flow, int stage) {
        queued[stage]--;
        long[] charged = seen.several() ? charge(flow, stage) : null;
        if (flow.items[stage].isEmpty()) {
            order.leave(flow.tier, flow.tenant, stage);
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
            seen.note(tier, tenant);
        }
        return flow;
    }
}
