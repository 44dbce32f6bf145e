package headworks.fair;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/**
 * The call that a thread serves, and whether it has had its time. While others are due, a scan ends early, as it does after its
 * time limit, and its client asks for the rest. A batch stops between two of its rows, and goes on when it is its turn.
 */
public final class Slice {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();
    /** Each call gets on: before so many steps a scan does not end. */
    private static final int FEWEST_STEPS = 16;
    private static final ThreadLocal<Slice> HERE = new ThreadLocal<>();

    private final Running<Object> running;
    private final Stages.Taken<Object> taken;
    private long since = System.nanoTime();
    private int steps;
    private boolean isOver;

    private Slice(Running<Object> running, Stages.Taken<Object> taken) {
        this.running = running;
        this.taken = taken;
    }

    /** The thread begins with a call. Up to then it had used so much of the processors. */
    public static void begin(Running<Object> running, Stages.Taken<Object> taken, long cpuNs) {
        taken.cpuSince = cpuNs;
        HERE.set(new Slice(running, taken));
    }

    /** The call is over. */
    public static void end() {
        HERE.remove();
    }

    /** One more step of a scan. {@code true}: it ends here. Once it was said, it is said again: a scan asks at several places. */
    public static boolean ends() {
        Slice here = HERE.get();
        return here != null && here.isOver();
    }

    /** One more row of a batch. The thread waits here if others are due. */
    public static void row() {
        Slice here = HERE.get();
        if (here != null && here.steps++ > 0 && here.othersAreDue(Room.SLICE_NS)) {
            long stops = System.nanoTime();
            here.running.stop(here.taken);
            here.since = System.nanoTime();
            Here.waited(here.since - stops);
        }
    }

    private boolean isOver() {
        if (!isOver && ++steps >= FEWEST_STEPS) {
            isOver = othersAreDue(Room.LONG_SLICE_NS);
        }
        return isOver;
    }

    private boolean othersAreDue(long sliceNs) {
        if (!running.othersWait(taken) || System.nanoTime() - since < sliceNs) {
            return false;
        }
        boolean due = !running.mayGoOn(taken, (THREADS.getCurrentThreadCpuTime() - taken.cpuSince) / PROCESSORS);
        if (due) {
            Scheduler.here().figures().waits(Stage.HANDLE);
        } else {
            since = System.nanoTime();
        }
        return due;
    }
}
