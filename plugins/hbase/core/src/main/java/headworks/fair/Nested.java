package headworks.fair;

import java.util.Arrays;

/**
 * Who is next at a stage: first the tier, then the tenant inside it. Both by {@link Fair}. All stages
 * share the virtual times, so what a flow uses at one stage counts at the others.
 */
final class Nested {
    private static final int TIERS = Tier.values().length;

    private final int stages;
    /** Shares between tiers. */
    private final Fair top;
    private final Fair[] tenants = new Fair[TIERS];
    private final Line[][] lines;
    /** Stages at which a flow has something, by tier and flow; and flows that have something, by tier. */
    private final int[][] waitsAt = new int[TIERS][0];
    private final int[] waiting = new int[TIERS];
    private int chosenFlow;

    Nested(int stages, int resources) {
        this.stages = stages;
        top = new Fair(resources);
        top.grow(TIERS - 1);
        lines = new Line[TIERS][stages];
        for (Tier tier : Tier.values()) {
            top.setWeight(tier.ordinal(), tier.weight);
            tenants[tier.ordinal()] = new Fair(resources);
            Arrays.setAll(lines[tier.ordinal()], stage -> new Line(tenants[tier.ordinal()]));
        }
    }

    /** Makes room for a flow. */
    void grow(int tier, int flow) {
        tenants[tier].grow(flow);
        if (flow >= waitsAt[tier].length) {
            waitsAt[tier] = Arrays.copyOf(waitsAt[tier], Math.max(flow + 1, waitsAt[tier].length * 3 / 2));
        }
    }

    void setWeight(int tier, int flow, int thousandths) {
        tenants[tier].setWeight(flow, thousandths);
    }

    /** The flow had nothing at the stage, and has something. */
    void arrive(int tier, int flow, int stage) {
        arrive(tier, flow, stage, true);
    }

    /** The same. The flow may be chosen, or is held. */
    void arrive(int tier, int flow, int stage, boolean free) {
        resume(tier, flow);
        if (waitsAt[tier][flow]++ == 0) {
            waiting[tier]++;
        }
        if (free) {
            lines[tier][stage].add(flow);
        }
    }

    /** If the flow had nothing anywhere, it comes back from idleness. */
    void resume(int tier, int flow) {
        if (waitsAt[tier][flow] == 0) {
            tenants[tier].arrive(flow);
            if (waiting[tier] == 0) {
                top.arrive(tier);
            }
        }
    }

    /** The flow has something at the stage: it may not be chosen any more, or may be again. */
    void hold(int tier, int flow, int stage, boolean held) {
        if (held) {
            lines[tier][stage].remove(flow);
        } else {
            lines[tier][stage].add(flow);
        }
    }

    /** Whether what is next at one stage goes before what is next at another. */
    boolean before(int stage, int other) {
        int tier = choose(stage);
        int flow = chosenFlow;
        int otherTier = choose(other);
        if (tier < 0 || otherTier < 0) {
            return otherTier < 0;
        }
        return tier != otherTier ? top.dominant(tier) < top.dominant(otherTier)
            : tenants[tier].dominant(flow) < tenants[tier].dominant(chosenFlow);
    }

    /** The flow had something at the stage, and has nothing any more. */
    void leave(int tier, int flow, int stage) {
        lines[tier][stage].remove(flow);
        if (--waitsAt[tier][flow] == 0) {
            waiting[tier]--;
        }
    }

    /** The tier to serve next at the stage, -1 if nothing is there. The flow is {@link #chosenFlow}. */
    int choose(int stage) {
        int best = -1;
        for (int tier = 0; tier < TIERS; tier++) {
            if (!lines[tier][stage].isEmpty() && (best < 0 || top.dominant(tier) < top.dominant(best))) {
                best = tier;
            }
        }
        if (best >= 0) {
            chosenFlow = lines[best][stage].first();
        }
        return best;
    }

    int chosenFlow() {
        return chosenFlow;
    }

    /** What was chosen is served. */
    void served(int tier, int flow) {
        top.served(tier);
        tenants[tier].served(flow);
    }

    void charge(int tier, int flow, int resource, long costNs) {
        top.charge(tier, resource, costNs);
        tenants[tier].charge(flow, resource, costNs);
        for (int stage = 0; stage < stages; stage++) {
            lines[tier][stage].later(flow);
        }
    }

    /** Whether the flow has something at some stage. */
    boolean waits(int tier, int flow) {
        return waitsAt[tier][flow] > 0;
    }

    /** Flows of all tiers that have something at some stage. */
    int waiting() {
        return Arrays.stream(waiting).sum();
    }

    long dominant(int tier, int flow) {
        return tenants[tier].dominant(flow);
    }

    long dominant(int tier) {
        return top.dominant(tier);
    }
}
