package headworks.fair;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * What runs at the stage whose threads need processors, while several tenants come: what may begin, what goes on, and what has
 * had its time. {@link Room} says how much may run, and {@link Nested} whose turn it is.
 *
 * <p>A call that was stopped waits in the same order as those that were not begun, before its tenant's others.
 */
public final class Running<T> {
    /** Calls that wait are looked at in one of so many looks. */
    private static final int SELDOM = 4;

    private final ReentrantLock lock;
    private final Runnable goesOn;
    private final Nested order;
    private final List<List<Flow<T>>> flows;
    private final Recent recent;
    /** The order of calls that were stopped is that of one more stage. */
    private final int stopped;
    private int stage = -1;
    private Room<Flow<T>> room;
    /** Something waits for room. */
    private volatile boolean isShort;
    /** Whose turn it is of what was not begun, and of what was stopped. */
    private volatile Flow<T> next;
    private volatile Flow<T> nextStopped;
    private int looks;

    /** A call that was stopped. */
    static final class Stop<T> {
        final Stages.Taken<T> taken;
        private final Condition condition;
        private boolean goesOn;

        private Stop(Stages.Taken<T> taken, Condition condition) {
            this.taken = taken;
            this.condition = condition;
        }
    }

    /** Who looks at threads. */
    interface Eyes {
        /** Whether the thread waits for anything but a processor. */
        boolean wait(Worker worker);

        /** What the thread has used of the processors so far. */
        long cpuNs(Worker worker);

        int processors();
    }

    /** {@code goesOn} is called under the lock when there may be room. */
    Running(ReentrantLock lock, Runnable goesOn, Nested order, List<List<Flow<T>>> flows, Recent recent, int stopped) {
        this.lock = lock;
        this.goesOn = goesOn;
        this.order = order;
        this.flows = flows;
        this.recent = recent;
        this.stopped = stopped;
    }

    // The first part is called with the lock.

    void set(int atStage, int processors) {
        stage = atStage;
        if (processors == 0) {
            room = null;
        } else if (room == null) {
            room = new Room<>(processors, this::behind);
        } else {
            room.setProcessors(processors);
        }
    }

    int stage() {
        return stage;
    }

    private boolean behind(Flow<T> one, Flow<T> other) {
        return one.tier == other.tier ? order.dominant(one.tier, one.tenant) < order.dominant(other.tier, other.tenant)
            : order.dominant(one.tier) < order.dominant(other.tier);
    }

    /** Whether one more of its calls may run. While its tenant alone comes, any number may. */
    boolean admits(Flow<T> flow) {
        boolean may = room == null || !recent.others(flow.period) || room.admits(flow, System.nanoTime());
        if (!may && !isShort) {
            isShort = true;
        }
        return may;
    }

    void begin(Stages.Taken<T> taken) {
        if (room != null && taken.charged != null) {
            taken.worker = Worker.here();
            taken.run = room.begin(taken.flow, taken, System.nanoTime());
        }
    }

    void end(Stages.Taken<T> taken) {
        if (room != null && taken.run != null) {
            room.end(taken.run);
        }
    }

    /** Lets calls that were stopped go on, if it is their turn, or if no thread is there for others. */
    void goOn(boolean threadIsThere) {
        for (Flow<T> flow = first(stopped); flow != null; flow = first(stopped)) {
            boolean othersAreFirst = threadIsThere && order.before(stage, stopped);
            if (othersAreFirst || !admits(flow)) {
                return;
            }
            goOn(flow.stopped.peek(), true);
        }
    }

    private void goOn(Stop<T> stop, boolean itIsItsTurn) {
        Flow<T> flow = stop.taken.flow;
        flow.stopped.remove(stop);
        if (flow.stopped.isEmpty()) {
            order.leave(flow.tier, flow.tenant, stopped);
        }
        order.served(flow.tier, flow.tenant);
        if (room != null) {
            room.resume(stop.taken.run, System.nanoTime());
        }
        stop.goesOn = itIsItsTurn;
        stop.condition.signal();
    }

    private Flow<T> first(int at) {
        int tier = order.choose(at);
        return tier < 0 ? null : flows.get(tier).get(order.chosenFlow());
    }

    /** Notes whose turn it is. */
    void note() {
        if (room != null) {
            next = first(stage);
            nextStopped = first(stopped);
        }
    }

    private void charge(Stages.Taken<?> taken, long cpuNs) {
        int cpu = Resource.CPU.ordinal();
        long missing = cpuNs - taken.charged[cpu];
        if (missing > 0) {
            taken.charged[cpu] = cpuNs;
            order.charge(taken.flow.tier, taken.flow.tenant, cpu, missing);
        }
    }

    // The rest takes it.

    /** Whether others' calls wait: one that has had its time should ask {@link #mayGoOn}. */
    public boolean othersWait(Stages.Taken<T> taken) {
        Flow<T> one = next;
        Flow<T> other = nextStopped;
        return one != null && one != taken.flow || other != null && other != taken.flow;
    }

    /** A call has had its time, and used so much of the processors up to now. {@code false}: others are due before it. */
    public boolean mayGoOn(Stages.Taken<T> taken, long cpuNs) {
        lock.lock();
        try {
            if (taken.run == null || room == null) {
                return true;
            }
            charge(taken, cpuNs);
            for (int at = stage; at >= 0; at = at == stage ? stopped : -1) {
                Flow<T> flow = first(at);
                if (flow != null && flow != taken.flow && behind(flow, taken.flow)) {
                    return false;
                }
            }
            taken.run.since = System.nanoTime();
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** A call that holds nothing stops until it is its turn. {@code false}: it has waited for too long, and goes on. */
    public boolean stop(Stages.Taken<T> taken) {
        lock.lock();
        try {
            if (taken.run == null || room == null) {
                return true;
            }
            Flow<T> flow = taken.flow;
            Stop<T> stop = new Stop<>(taken, lock.newCondition());
            room.end(taken.run);
            flow.stopped.add(stop);
            if (flow.stopped.size() == 1) {
                order.arrive(flow.tier, flow.tenant, stopped);
            }
            goesOn.run();
            return await(stop);
        } finally {
            lock.unlock();
        }
    }

    private boolean await(Stop<T> stop) {
        long left = Room.LONGEST_NS;
        boolean interrupted = false;
        while (!stop.goesOn && left > 0 && !interrupted) {
            try {
                left = stop.condition.awaitNanos(left);
            } catch (InterruptedException stops) {
                // A server interrupts threads when it stops, or when a region is closed: the call goes on, and keeps the mark.
                interrupted = true;
            }
        }
        if (!stop.goesOn) {
            goOn(stop, false);
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        return stop.goesOn;
    }

    /**
     * Looks at what runs, if something waits for room: which of it waits for anything but a processor. Whether there may be need
     * to look again soon.
     */
    public boolean look(Eyes eyes) {
        if (!isShort) {
            return false;
        }
        List<Room.Run<Flow<T>>> all;
        lock.lock();
        try {
            isShort = false;
            if (room == null) {
                return false;
            }
            all = room.all();
        } finally {
            lock.unlock();
        }
        boolean atAll = looks++ % SELDOM == 0;
        all.removeIf(run -> run.waits() && !atAll);
        boolean[] waits = new boolean[all.size()];
        long[] cpuNs = new long[waits.length];
        for (int at = 0; at < waits.length; at++) {
            Stages.Taken<?> taken = (Stages.Taken<?>) all.get(at).call;
            waits[at] = eyes.wait(taken.worker);
            cpuNs[at] = waits[at] || taken.cpuSince == 0 ? 0 : eyes.cpuNs(taken.worker) - taken.cpuSince;
        }
        lock.lock();
        try {
            for (int at = 0; at < waits.length; at++) {
                room.seen(all.get(at), waits[at]);
                if (room.runs(all.get(at))) {
                    charge((Stages.Taken<?>) all.get(at).call, cpuNs[at] / eyes.processors());
                }
            }
            if (atAll) {
                room.looked();
            }
            goesOn.run();
        } finally {
            lock.unlock();
        }
        return true;
    }
}
