package headworks.fair;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/** The tenants that a process has seen, by name. Their numbers are the same at each stage. */
public final class Tenants {
    /** Tenants that are told apart. All later ones share one queue. */
    public static final int MOST = 32_768;
    private static final int LONGEST_NAME = 256;

    /** A tenant, with its weight in thousandths. */
    public static final class Tenant {
        public final String name;
        public final int number;
        /** No client's name: alone with one client, it is no second tenant. */
        public final boolean nameless;
        /** What it was served so far, by stage. */
        public final AtomicLongArray served = new AtomicLongArray(Stage.COUNT);
        /** What it used so far, by resource: nanoseconds of the whole resource. */
        public final AtomicLongArray used = new AtomicLongArray(Resource.COUNT);
        /** Bytes of its responses that its clients have not taken yet. */
        public final AtomicLong unread = new AtomicLong();
        /** Calls that are taken, and may be making a response. */
        final AtomicInteger running = new AtomicInteger();
        /** What a response of its may have: the largest of late. */
        volatile long expected;
        private volatile int weight;

        private Tenant(String name, int number, int weight) {
            this.name = name;
            this.number = number;
            this.nameless = name.startsWith("(");
            this.weight = weight;
        }

        public int weight() {
            return weight;
        }
    }

    private final Map<String, Tenant> byName = new ConcurrentHashMap<>();
    /** Calls that cannot be told apart: no name, or too many names. */
    private final Tenant others = new Tenant("(others)", 0, Fair.WEIGHT_ONE);
    /** By number. A longer copy takes its place. */
    private volatile Tenant[] byNumber = {others};
    private volatile Map<String, Integer> weights = Map.of();

    /** The tenant of this name. */
    public Tenant of(String name) {
        if (name == null || name.isEmpty()) {
            return others;
        }
        Tenant known = byName.get(name);
        return known != null ? known : admit(name);
    }

    /** The tenant of a name that came from a client: the beginning of a long one. */
    public Tenant of(byte[] name) {
        return of(new String(name, 0, Math.min(name.length, LONGEST_NAME), StandardCharsets.UTF_8));
    }

    /** The tenant of this number. */
    public Tenant of(int number) {
        return byNumber[number];
    }

    public Tenant others() {
        return others;
    }

    /** All that were seen. */
    public List<Tenant> all() {
        List<Tenant> all = new ArrayList<>(byName.values());
        all.add(others);
        return all;
    }

    private synchronized Tenant admit(String name) {
        Tenant known = byName.get(name);
        if (known != null) {
            return known;
        }
        if (byName.size() >= MOST) {
            return others;
        }
        Tenant tenant = new Tenant(name, byName.size() + 1, weights.getOrDefault(name, Fair.WEIGHT_ONE));
        Tenant[] all = byNumber;
        if (tenant.number == all.length) {
            all = Arrays.copyOf(all, all.length * 2);
        }
        all[tenant.number] = tenant;
        byNumber = all;
        byName.put(name, tenant);
        return tenant;
    }

    /** Sets one weight, in thousandths. It holds until {@link #setWeights}. */
    public synchronized void setWeight(String name, int thousandths) {
        Tenant tenant = of(name);
        if (tenant != others) {
            tenant.weight = thousandths;
        }
    }

    /** Sets the weights, in thousandths. Who is not among them has weight one. */
    public synchronized void setWeights(Map<String, Integer> thousandths) {
        weights = Map.copyOf(thousandths);
        byName.values().forEach(tenant -> tenant.weight = weights.getOrDefault(tenant.name, Fair.WEIGHT_ONE));
    }
}
