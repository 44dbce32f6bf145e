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
 * take it ({@link #attempt}), and one tenant's things may not take all threads ({@link #setMost}). No more are taken there than
 * the processors have room for ({@link Running}).
 *
 * <p>While only one tenant was ever seen, nothing is charged, and the order is first in, first out.
 */
public final class Stages<T> {
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
    /** What runs at {@link Running#stage}. */
    private final Running<T> running;
    private final Nested order;
    private final List<List<Flow<T>>> flows = new ArrayList<>();
    private final Seen seen;

    /** What was taken. It goes back to {@link #done} when its cost is known. */
    public static final class Taken<T> {
        public final T item;
        final Flow<T> flow;
        private final int stage;
        /** What it was charged, by resource; {@code null} while one tenant is alone. */
        final long[] charged;
        /** An attempt, which takes no thread of the stage. */
        private final boolean tried;
        /** It is one of those that {@link Stages#setMost} bounds. */
        private final boolean bounded;
        /** It was let in, and is told when it leaves. */
        private final Entry entry;
        /** It takes room at the processors; {@code null}: it is not counted. */
        Room.Run<Flow<T>> run;
        /** The thread that took it, and what that had used of the processors before; 0: it is not known yet. */
        Worker worker;
        volatile long cpuSince;

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
        order = new Nested(stages + 2, resources);
        running = new Running<>(lock, this::goOn, order, flows, recent, stages + 1);
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
            if (stage == bounded || stage == running.stage()) {
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
            taken.flow.settle(order, taken.charged, costNs);
            if (!taken.tried) {
                taken.flow.learn(taken.stage, costNs);
            }
        } finally {
            lock.unlock();
            left(taken);
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
                taken.flow.settle(order, taken.charged, costNs);
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
        running.end(taken);
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
            running.note();
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
        if (stage == running.stage()) {
            goOn();
        } else {
            filled[stage].signal();
        }
    }

    private Taken<T> next(int stage) {
        boolean counts = stage == running.stage();
        Flow<T> flow;
        do {
            if (counts) {
                running.goOn(true);
            }
            int tier = order.choose(stage);
            if (tier < 0) {
                return null;
            }
            flow = flows.get(tier).get(order.chosenFlow());
            if (counts && !running.admits(flow)) {
                return null;
            }
        } while (!enters(flow, stage));
        Taken<T> taken = taken(flow.items[stage].poll(), flow, stage, false);
        if (taken.bounded) {
            flow.running++;
            bound(flow);
        }
        if (counts) {
            running.begin(taken);
            goOn();
        }
        return taken;
    }

    /** There may be room for one more: a call that was stopped goes on, or a thread that waits takes what is next. */
    private void goOn() {
        int stage = running.stage();
        running.goOn(idle[stage] > 0);
        int tier = idle[stage] > 0 ? order.choose(stage) : -1;
        if (tier >= 0 && running.admits(flows.get(tier).get(order.chosenFlow()))) {
            filled[stage].signal();
        }
        running.note();
    }

    /** At this stage no more may run than so many processors have room for; 0: any number. */
    public void setRoom(int stage, int processors) {
        lock.lock();
        try {
            running.set(stage, processors);
            goOn();
        } finally {
            lock.unlock();
        }
    }

    /** What runs at the stage that has a room. */
    public Running<T> running() {
        return running;
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
        return flow.charge(order, stage);
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
