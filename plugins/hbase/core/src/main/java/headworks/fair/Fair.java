package headworks.fair;

import java.util.Arrays;

/**
 * Fair queueing over several resources: the flow whose largest virtual time is smallest goes next.
 *
 * <p>This is a port of {@code crates/policy/src/fair.rs}, which says why it is so. Test vectors that
 * the Rust code wrote are replayed here. Two things differ in form. Flows are not limited to 64. And
 * the choice among flows is made by {@link Line}, in logarithmic time.
 *
 * <p>Not safe for several threads: {@link Stages} has the lock.
 */
final class Fair {
    /** Unit of weight: this much is "one". */
    static final int WEIGHT_ONE = 1_000;

    /** Virtual time by which a flow may be further at one resource than at another, and still claim the latter. */
    static final long DOVETAIL_NS = 100_000_000;

    private final int resources;
    /** Largest virtual time at which a flow was served, by resource. */
    private final long[] reached;
    /** Work given so far by flow and resource: nanoseconds of the whole resource, by weight. */
    private long[] time = new long[0];
    private long[] dominant = new long[0];
    private int[] weight = new int[0];

    Fair(int resources) {
        this.resources = resources;
        this.reached = new long[resources];
    }

    /** Makes room for a flow. */
    void grow(int flow) {
        int flows = weight.length;
        if (flow < flows) {
            return;
        }
        int room = Math.max(flow + 1, Math.max(8, flows + flows / 2));
        time = Arrays.copyOf(time, room * resources);
        dominant = Arrays.copyOf(dominant, room);
        weight = Arrays.copyOf(weight, room);
        Arrays.fill(weight, flows, room, WEIGHT_ONE);
    }

    /** Sets a flow's weight, in thousandths; at least one. */
    void setWeight(int flow, int thousandths) {
        weight[flow] = Math.max(1, thousandths);
    }

    /** The flow comes back from idleness: it has no claim on what it did not ask for. */
    void arrive(int flow) {
        raise(flow, reached);
    }

    /** The flow's largest virtual time. */
    long dominant(int flow) {
        return dominant[flow];
    }

    /** The flow is served; what that costs is said by {@link #charge}, at once or later. */
    void served(int flow) {
        long floor = Math.max(0, dominant[flow] - DOVETAIL_NS);
        int at = flow * resources;
        for (int resource = 0; resource < resources; resource++) {
            time[at + resource] = Math.max(time[at + resource], floor);
            reached[resource] = Math.max(reached[resource], time[at + resource]);
        }
    }

    /** The flow was given {@code costNs} of a resource: the time for which all of it would be busy. */
    void charge(int flow, int resource, long costNs) {
        int at = flow * resources + resource;
        time[at] = add(time[at], scaled(costNs, weight[flow]));
        dominant[flow] = Math.max(dominant[flow], time[at]);
    }

    private void raise(int flow, long[] floor) {
        int at = flow * resources;
        for (int resource = 0; resource < resources; resource++) {
            time[at + resource] = Math.max(time[at + resource], floor[resource]);
            dominant[flow] = Math.max(dominant[flow], time[at + resource]);
        }
    }

    private static long scaled(long cost, int weight) {
        return cost > Long.MAX_VALUE / WEIGHT_ONE ? Long.MAX_VALUE / weight : cost * WEIGHT_ONE / weight;
    }

    private static long add(long a, long b) {
        return a > Long.MAX_VALUE - b ? Long.MAX_VALUE : a + b;
    }
}
