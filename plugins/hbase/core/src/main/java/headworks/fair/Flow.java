package headworks.fair;

import java.util.ArrayDeque;

/** A tenant in a tier. */
final class Flow<T> {
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
}
