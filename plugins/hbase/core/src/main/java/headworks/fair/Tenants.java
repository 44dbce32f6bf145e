package headworks.fair;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * The tenants that a process has seen, by name. Their numbers are the same at each stage.
 *
 * <p>A name may be a job's, and never come again. So who was not seen for some minutes is forgotten, and its number is given
 * to another. And one account's names are bounded, since an attribute is what a client says it is.
 */
public final class Tenants {
    /** Tenants that are told apart at a time. All later ones share one queue. */
    public static final int MOST = 32_768;
    /** Names of one account at a time. Its other ones count as the account itself. */
    static final int MOST_OF_ACCOUNT = MOST / 8;
    /** Time between two looks for who has not come. */
    private static final long LOOK_NS = 60_000_000_000L;
    /** Looks after which who has not come is forgotten. */
    private static final int LOOKS = 5;

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
        /** A controller has said its weight. */
        private boolean told;
        /** Whose name it is; {@code null}: it is an account's own, or the server's. */
        private final String account;
        /** It was asked for since the last look; and looks since that was so. */
        private volatile boolean seen = true;
        private int idle;

        private Tenant(String name, int number, int weight, String account) {
            this.name = name;
            this.number = number;
            this.nameless = name.startsWith("(");
            this.weight = weight;
            this.account = account;
        }

        public int weight() {
            return weight;
        }
    }

    private final Map<String, Tenant> byName = new ConcurrentHashMap<>();
    /** Calls that cannot be told apart: no name, or too many names. */
    private final Tenant others = new Tenant("(others)", 0, Fair.WEIGHT_ONE, null);
    /** By number. A longer copy takes its place. */
    private volatile Tenant[] byNumber = {others};
    /** Numbers were given up to this one, but for those that are free again. */
    private int made;
    private final Deque<Integer> free = new ArrayDeque<>();
    private final Map<String, Integer> ofAccount = new HashMap<>();
    private volatile Map<String, Integer> weights = Map.of();
    private volatile Predicate<Tenant> busy = tenant -> false;
    private volatile Consumer<Tenant> forgets = tenant -> { };
    private long looked = System.nanoTime();

    /** The tenant of this name. */
    public Tenant of(String name) {
        return of(name, null);
    }

    private Tenant of(String name, String account) {
        if (name == null || name.isEmpty()) {
            return others;
        }
        Tenant known = byName.get(name);
        if (known == null) {
            known = admit(name, account);
        }
        if (!known.seen) {
            known.seen = true;
        }
        return known;
    }

    /** The tenant of an account. */
    public Tenant client(String account) {
        return account == null ? others : of(Escape.client(account));
    }

    /** The tenant of a name that an account's client says. */
    public Tenant client(byte[] name, String account) {
        return of(Escape.client(new String(name, StandardCharsets.UTF_8)), account == null ? "" : Escape.client(account));
    }

    /** The tenant of this number. */
    public Tenant of(int number) {
        return byNumber[number];
    }

    public Tenant others() {
        return others;
    }

    /** All that are known. */
    public List<Tenant> all() {
        List<Tenant> all = new ArrayList<>(byName.values());
        all.add(others);
        return all;
    }

    /** Who is busy is not forgotten; and who is forgotten is told. */
    void heed(Predicate<Tenant> isBusy, Consumer<Tenant> isForgotten) {
        busy = isBusy;
        forgets = isForgotten;
    }

    private synchronized Tenant admit(String name, String account) {
        Tenant known = byName.get(name);
        if (known != null) {
            return known;
        }
        if (System.nanoTime() - looked > LOOK_NS) {
            look();
        }
        int names = account == null ? 0 : ofAccount.getOrDefault(account, 0);
        if (names >= MOST_OF_ACCOUNT) {
            return of(account);
        }
        if (byName.size() >= MOST) {
            return others;
        }
        Integer again = free.poll();
        Tenant tenant = new Tenant(name, again == null ? ++made : again, weights.getOrDefault(name, Fair.WEIGHT_ONE), account);
        Tenant[] all = byNumber;
        if (tenant.number == all.length) {
            all = Arrays.copyOf(all, all.length * 2);
        }
        all[tenant.number] = tenant;
        byNumber = all;
        byName.put(name, tenant);
        if (account != null) {
            ofAccount.put(account, names + 1);
        }
        return tenant;
    }

    /**
     * Forgets who has not come for long. A call that lasts for longer than that is charged to who has the number then.
     */
    synchronized void look() {
        looked = System.nanoTime();
        for (Tenant tenant : byName.values()) {
            boolean here = tenant.seen || tenant.nameless || tenant.running.get() > 0 || tenant.unread.get() > 0 || busy.test(tenant);
            tenant.seen = false;
            tenant.idle = here ? 0 : tenant.idle + 1;
            if (tenant.idle >= LOOKS) {
                byName.remove(tenant.name);
                free.add(tenant.number);
                if (tenant.account != null) {
                    ofAccount.computeIfPresent(tenant.account, (account, names) -> names == 1 ? null : names - 1);
                }
                forgets.accept(tenant);
            }
        }
    }

    /** A controller says one weight, in thousandths. It goes before the file's. */
    public synchronized void setWeight(String name, int thousandths) {
        Tenant tenant = of(name);
        if (tenant != others) {
            tenant.told = true;
            tenant.weight = thousandths;
        }
    }

    /**
     * Sets the weights that this server's own configuration has, in thousandths. Who is not among them has weight one.
     * What a controller has said stays, unless there is none any more.
     */
    public synchronized void setWeights(Map<String, Integer> thousandths, boolean noController) {
        weights = Map.copyOf(thousandths);
        for (Tenant tenant : byName.values()) {
            tenant.told &= !noController;
            if (!tenant.told) {
                tenant.weight = weights.getOrDefault(tenant.name, Fair.WEIGHT_ONE);
            }
        }
    }
}
