package headworks.fair;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BiPredicate;

/**
 * How many calls may run at once, while several tenants come: as many as keep the processors busy and their queue short. Where
 * more run, the processors' own queue decides who goes on, and it knows no tenants.
 *
 * <p>What counts is what a call was seen to do. One that waits for a disk or a lock takes no room. One that was not looked at yet
 * takes what its tenant's calls take on average. Calls do not wait by turns: some processors would be idle at times. So the room
 * grows while fewer than the processors are seen to run, and shrinks again.
 *
 * <p>A call may be longer than its {@link #SLICE_NS}, and cannot always be stopped. From then on it takes no room of tenants that are behind its own:
 * they run beside it. And when none was begun for {@link #LONGEST_NS}, the next one is: a call may wait for another one in a
 * way that cannot be seen.
 *
 * <p>It has no clock and no lock. Its caller has both.
 *
 * @param <P> whose calls they are
 */
final class Room<P extends Room.Part> {
    /** After so long a call makes room for tenants that are behind. It costs little to stop and to go on. */
    static final long SLICE_NS = 500_000;
    /** For a call that is made anew by its client: that costs some hundred microseconds. */
    static final long LONG_SLICE_NS = 2 * SLICE_NS;
    static final long LONGEST_NS = Gate.LONGEST_WAIT_NS;
    /** What a tenant's calls take moves by one such part to each thing that is seen. */
    private static final float STEP = 1 / 16f;
    /** The room grows and shrinks by one such part of what is missing at the processors, and up to so many times their number. */
    private static final float GROWTH = 1 / 16f;
    private static final int MOST = 4;
    /** Of a processor: by so much the room may be exceeded. Averages are never whole. */
    private static final float SLACK = 0.5f;

    /** A tenant's calls. */
    static class Part {
        /** Of a processor, what a call takes on average: the part of its time in which it does not wait. */
        private float takes = 1;
    }

    /** A call that runs. */
    static final class Run<P> {
        final P part;
        /** What its caller knows of it. */
        final Object call;
        /** Since when it runs, or goes on. */
        long since;
        private boolean seen;
        private boolean waits;
        private int at;

        private Run(P part, Object call, long now) {
            this.part = part;
            this.call = call;
            since = now;
        }

        boolean waits() {
            return waits;
        }

        /** It has had its time. */
        boolean isOver(long now) {
            return now - since >= SLICE_NS;
        }
    }

    private final List<Run<P>> all = new ArrayList<>();
    /** Whether the first tenant is behind the second: has had less of what it is due. */
    private final BiPredicate<P, P> behind;
    private int processors;
    /** By so much the room is larger than the processors. */
    private float more;
    private long begun;

    Room(int processors, BiPredicate<P, P> behind) {
        this.processors = processors;
        this.behind = behind;
    }

    void setProcessors(int count) {
        processors = count;
    }

    /** Whether one more of its calls may run. */
    boolean admits(P part, long now) {
        return all.isEmpty() || taken(part, now) + takes(part) <= processors + more + SLACK || now - begun >= LONGEST_NS;
    }

    /** The room that is taken, as this tenant sees it. */
    private float taken(P part, long now) {
        float sum = 0;
        for (int at = 0; at < all.size(); at++) {
            Run<P> run = all.get(at);
            boolean makesRoom = run.part != part && run.isOver(now) && behind.test(part, run.part);
            sum += run.waits || makesRoom ? 0 : run.seen ? 1 : takes(run.part);
        }
        return sum;
    }

    private float takes(P part) {
        Part average = part;
        return average.takes;
    }

    Run<P> begin(P part, Object call, long now) {
        Run<P> run = new Run<>(part, call, now);
        begun = now;
        add(run);
        return run;
    }

    /** A call that was stopped runs again. */
    void resume(Run<P> run, long now) {
        run.since = now;
        run.seen = false;
        run.waits = false;
        begun = now;
        add(run);
    }

    private void add(Run<P> run) {
        run.at = all.size();
        all.add(run);
    }

    /** The call has ended, or is stopped. */
    void end(Run<P> run) {
        if (runs(run)) {
            Run<P> last = all.remove(all.size() - 1);
            if (last != run) {
                all.set(run.at, last);
                last.at = run.at;
            }
            run.at = -1;
        }
    }

    boolean runs(Run<P> run) {
        return run.at >= 0;
    }

    /** It was looked at: whether it waits for anything but a processor. */
    void seen(Run<P> run, boolean waits) {
        if (runs(run)) {
            run.seen = true;
            run.waits = waits;
            Part average = run.part;
            average.takes += STEP * ((waits ? 0 : 1) - average.takes);
        }
    }

    /** All that run were looked at, and something waits for room. */
    void looked() {
        int runnable = 0;
        for (Run<P> run : all) {
            runnable += run.waits ? 0 : 1;
        }
        more = Math.max(0, Math.min((MOST - 1) * processors, more + GROWTH * (processors - runnable)));
    }

    List<Run<P>> all() {
        return new ArrayList<>(all);
    }
}
