package headworks.fair;

import java.util.ArrayDeque;

/** A tenant in a tier. */
final class Flow<T> extends Room.Part {
    /** An estimate moves by one eighth of the difference to each cost that is seen. */
    private static final int MEMORY = 8;
    private static final int REASONS = Stages.Reason.values().length;

    final int tier;
    final int tenant;
    final ArrayDeque<T>[] items;
    /** Usual cost of a request, by stage and resource. */
    final long[][] usual;
    /** What was charged too much, by resource. */
    final long[] credit;
    /** Stages at which it is held, and why, by bit. */
    private int held;
    /** Those of its items that may be tried, in their order. */
    ArrayDeque<T> tries;
    /** Threads of the bounded stage that it holds, and its last period there. */
    int running;
    int period;
    /** Calls that were stopped, in the order in which they go on. */
    final ArrayDeque<Running.Stop<T>> stopped = new ArrayDeque<>(0);

    private int reasons(int stage) {
        return held >> REASONS * stage & (1 << REASONS) - 1;
    }

    void hold(int stage, Stages.Reason reason, boolean is) {
        int bit = 1 << REASONS * stage + reason.ordinal();
        held = is ? held | bit : held & ~bit;
    }

    boolean isHeld(int stage) {
        return reasons(stage) != 0;
    }

    /** An attempt takes no thread of the stage. */
    boolean mayBeTried(int stage) {
        return (reasons(stage) & ~(1 << Stages.Reason.MOST.ordinal())) == 0;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    Flow(int tier, int tenant, int stages, int resources) {
        this.tier = tier;
        this.tenant = tenant;
        items = new ArrayDeque[stages];
        usual = new long[stages][];
        credit = new long[resources];
    }

    /** Charges the usual cost, less what was charged too much before. */
    long[] charge(Nested order, int stage) {
        if (usual[stage] == null) {
            usual[stage] = new long[credit.length];
        }
        long[] charged = usual[stage].clone();
        for (int resource = 0; resource < charged.length; resource++) {
            long less = Math.min(charged[resource], credit[resource]);
            credit[resource] -= less;
            order.charge(tier, tenant, resource, charged[resource] - less);
        }
        return charged;
    }

    /** Charges what is missing. What was charged too much is left out of the next charges. */
    void settle(Nested order, long[] charged, long[] costNs) {
        for (int resource = 0; resource < credit.length; resource++) {
            long missing = Math.max(0, costNs[resource]) - charged[resource];
            if (missing > 0) {
                order.charge(tier, tenant, resource, missing);
            } else {
                // One call's is given back in full, however much it is.
                long most = Math.max(Fair.DOVETAIL_NS, charged[resource]);
                credit[resource] = Math.max(credit[resource], Math.min(most, credit[resource] - missing));
            }
        }
    }

    void learn(int stage, long[] costNs) {
        for (int resource = 0; resource < credit.length; resource++) {
            long cost = Math.max(0, costNs[resource]);
            usual[stage][resource] += usual[stage][resource] == 0 ? cost : (cost - usual[stage][resource]) / MEMORY;
        }
    }
}
