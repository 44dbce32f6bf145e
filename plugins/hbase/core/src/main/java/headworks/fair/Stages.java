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
 * <p>At one stage some of what is queued may be tried by threads of their own while no thread is free to
 * take it ({@link #attempt}), and one tenant's things may not take all threads ({@link #setMost}).
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
    /** Threads that wait at a stage. */
    private final int[] idle;
    /** The order of what may be tried is that of one more stage, which has no queue. */
    private final int tried;
    private final Condition crowded = lock.newCondition();
    private int worthATry;
    /** The stage at which a tenant may hold {@link #most} threads while others come; 0: any number. */
    private int bounded;
    private int most;
    private final Recent recent = new Recent();
    /** Who is asked at {@link #asked} whether a client may have one thing more taken; {@code null}: none. */
    private Entry entry;
    private int asked;
    /** Who let the next one in, that is about to be taken; {@code null}: none was asked. */
    private Entry letIn;
    private final List<Flow<T>> atMost = new ArrayList<>();
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
        /** An attempt, which takes no thread of the stage. */
        private final boolean tried;
        /** It is one of those that {@link Stages#setMost} bounds. */
        private final boolean bounded;
        /** It was let in, and is told when it leaves. */
        private final Entry entry;

        private Taken(T item, Flow<T> flow, int stage, long[] charged, boolean tried, boolean bounded, Entry entry) {
            this.item = item;
            this.flow = flow;
            this.stage = stage;
            this.charged = charged;
            this.tried = tried;
            this.bounded = bounded;
            this.entry = entry;
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
        idle = new int[stages];
        tried = stages;
        order = new Nested(stages + 1, resources);
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
        return add(stage, tier, tenant, weight, item, limit, false);
    }

    /** The same. If it is worth it, it may be tried while no thread is free to take it. At one stage only. */
    public boolean add(int stage, Tier tier, int tenant, int weight, T item, int limit, boolean worthIt) {
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
            if (stage == bounded && most > 0) {
                flow.period = recent.note(flow.period);
            }
            queued(flow, stage);
            if (worthIt) {
                mayBeTried(flow, stage, item);
            }
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
                await(stage, Long.MAX_VALUE);
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
                left = await(stage, left);
            }
            crowded.signal();
            return taken;
        } finally {
            lock.unlock();
        }
    }

    private long await(int stage, long timeoutNs) throws InterruptedException {
        idle[stage]++;
        try {
            return filled[stage].awaitNanos(timeoutNs);
        } finally {
            idle[stage]--;
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
            ended(taken);
            settle(taken, costNs);
            if (taken.tried) {
                return;
            }
            long[] usual = taken.flow.usual[taken.stage];
            for (int resource = 0; resource < resources; resource++) {
                long cost = Math.max(0, costNs[resource]);
                usual[resource] += usual[resource] == 0 ? cost : (cost - usual[resource]) / MEMORY;
            }
        } finally {
            lock.unlock();
            left(taken);
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
                // One call's is given back in full, however much it is.
                long most = Math.max(Fair.DOVETAIL_NS, taken.charged[resource]);
                flow.credit[resource] = Math.max(flow.credit[resource], Math.min(most, flow.credit[resource] - missing));
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

    private void mayBeTried(Flow<T> flow, int stage, T item) {
        if (flow.tries == null) {
            flow.tries = new ArrayDeque<>(2);
        }
        flow.tries.add(item);
        worthATry++;
        if (flow.tries.size() == 1) {
            order.arrive(flow.tier, flow.tenant, tried, flow.mayBeTried(stage));
        }
        if (idle[stage] == 0 || flow.isHeld(stage)) {
            crowded.signal();
        }
    }

    /**
     * Takes what may be tried, of the tenant that is next of those; waits until there is something that no
     * thread is free to take. What requests usually cost is not learnt from attempts.
     */
    public Taken<T> attempt(int stage) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            while (true) {
                int tier = order.choose(tried);
                Flow<T> flow = tier < 0 ? null : flows.get(tier).get(order.chosenFlow());
                if (flow == null || idle[stage] > 0 && !flow.isHeld(stage)) {
                    crowded.await();
                } else if (enters(flow, stage)) {
                    T item = flow.tries.peek();
                    flow.items[stage].remove(item);
                    return taken(item, flow, stage, true);
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /**
     * What was taken waits again, before its tenant's others. The attempt cost this much.
     */
    public void putBack(Taken<T> taken, long[] costNs) {
        lock.lock();
        try {
            if (taken.charged != null) {
                ended(taken);
                settle(taken, costNs);
            }
            Flow<T> flow = taken.flow;
            flow.items[taken.stage].addFirst(taken.item);
            queued(flow, taken.stage);
        } finally {
            lock.unlock();
            left(taken);
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
    public enum Reason { UNREAD, LIMIT, MOST }

    /** Says whether one more of a client's things may be taken. */
    interface Entry {
        /** One more. {@code false}: all of the client's are held until {@link Stages#hold} lets them go on. Takes no lock: the instance's is held. */
        boolean enters(int tenant);

        /** One of them is over. No lock is held. */
        void leaves(int tenant);
    }

    /** Asks this at a stage from now on; {@code null}: none is asked. */
    void setEntry(int stage, Entry asks) {
        lock.lock();
        try {
            asked = stage;
            entry = asks;
        } finally {
            lock.unlock();
        }
    }

    private boolean enters(Flow<T> flow, int stage) {
        letIn = stage == asked && flow.tier == Tier.USERS.ordinal() && seen.several() ? entry : null;
        boolean may = letIn == null || letIn.enters(flow.tenant);
        if (!may) {
            hold(flow, stage, Reason.UNREAD, true);
        }
        return may;
    }

    private void left(Taken<T> taken) {
        if (taken.entry != null) {
            taken.entry.leaves(taken.flow.tenant);
        }
    }

    /** A tenant's things may hold so many threads of this stage while others' come; 0: any number. */
    public void setMost(int stage, int threads) {
        lock.lock();
        try {
            bounded = stage;
            most = threads;
            List.copyOf(atMost).forEach(this::bound);
        } finally {
            lock.unlock();
        }
    }

    /** A period is over, after which a tenant that did not come no longer keeps threads free. */
    public void tick() {
        lock.lock();
        try {
            recent.tick();
            List.copyOf(atMost).forEach(this::bound);
        } finally {
            lock.unlock();
        }
    }

    private void ended(Taken<T> taken) {
        if (taken.bounded) {
            taken.flow.running--;
            bound(taken.flow);
        }
    }

    /** Holds the flow if it has all threads that it may have while others come, or lets it go on. */
    private void bound(Flow<T> flow) {
        boolean full = most > 0 && flow.running >= most && recent.others(flow.period);
        if (full == atMost.contains(flow)) {
            return;
        }
        if (full) {
            atMost.add(flow);
        } else {
            atMost.remove(flow);
        }
        hold(flow, bounded, Reason.MOST, full);
    }

    /** Keeps a tenant's things at a stage: others are taken. Or lets them go on. */
    public void hold(int stage, Tier tier, int tenant, Reason reason, boolean held) {
        lock.lock();
        try {
            hold(flow(tier.ordinal(), tenant), stage, reason, held);
        } finally {
            lock.unlock();
        }
    }

    private void hold(Flow<T> flow, int stage, Reason reason, boolean held) {
        boolean was = flow.isHeld(stage);
        flow.hold(stage, reason, held);
        boolean is = flow.isHeld(stage);
        if (was != is && flow.items[stage] != null && !flow.items[stage].isEmpty()) {
            order.hold(flow.tier, flow.tenant, stage, is);
            if (!is) {
                filled[stage].signalAll();
            }
        }
        if (flow.tries != null && !flow.tries.isEmpty()) {
            order.hold(flow.tier, flow.tenant, tried, !flow.mayBeTried(stage));
            crowded.signalAll();
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
        Flow<T> flow;
        do {
            int tier = order.choose(stage);
            if (tier < 0) {
                return null;
            }
            flow = flows.get(tier).get(order.chosenFlow());
        } while (!enters(flow, stage));
        Taken<T> taken = taken(flow.items[stage].poll(), flow, stage, false);
        if (taken.bounded) {
            flow.running++;
            bound(flow);
        }
        return taken;
    }

    private Taken<T> taken(T item, Flow<T> flow, int stage, boolean isTried) {
        queued[stage]--;
        long[] charged = seen.several() ? charge(flow, stage, isTried) : null;
        if (flow.tries != null && flow.tries.peek() == item) {
            flow.tries.poll();
            worthATry--;
            if (flow.tries.isEmpty()) {
                order.leave(flow.tier, flow.tenant, tried);
            }
        }
        if (worthATry > 0) {
            crowded.signal();
        }
        if (flow.items[stage].isEmpty()) {
            order.leave(flow.tier, flow.tenant, stage);
        }
        boolean isBounded = !isTried && stage == bounded && most > 0 && charged != null;
        return new Taken<>(item, flow, stage, charged, isTried, isBounded, letIn);
    }

    /** Charges the usual cost, less what was charged too much before. An attempt is charged when it is over. */
    private long[] charge(Flow<T> flow, int stage, boolean isTried) {
        order.served(flow.tier, flow.tenant);
        if (isTried) {
            return new long[resources];
        }
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
