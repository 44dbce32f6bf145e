package headworks.fair;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * The scheduler of a process: its tenants, and the instances that all stages share. Upstream puts a
 * request into a random instance. A downstream thread takes from the one that it was assigned.
 *
 * <p>Some stages hand out at one place: the network's thread, a gate's permits. Such a stage has one
 * instance, {@link #of}. With several, turns would decide between them, and no share.
 */
public final class Scheduler {
    /** The processors are one resource: with several instances, turns would decide between them what runs next, and no share. */
    public static final int INSTANCES = 1;

    private static final Scheduler HERE = new Scheduler(INSTANCES);

    private final Tenants tenants = new Tenants();
    private final Seen seen = new Seen();
    private final Figures figures = new Figures(this);
    private final Limits limits = new Limits(this);
    private final Running.Eyes looks = new Worker.Looks();
    private final int first;
    private final AtomicInteger queues = new AtomicInteger();
    private volatile Stages<Object>[] instances;
    private Stages.Entry entry;
    private Stage asked;

    public Scheduler(int count) {
        first = count;
        instances = make(count);
        tenants.heed(tenant -> wants(tenant.number), tenant -> {
            limits.forget(tenant);
            figures.forget(tenant);
        });
    }

    /** The scheduler of this process. */
    public static Scheduler here() {
        return HERE;
    }

    public Tenants tenants() {
        return tenants;
    }

    public Figures figures() {
        return figures;
    }

    public Limits limits() {
        return limits;
    }

    /** Whether the tenant has something that waits, at any stage. */
    public boolean wants(int tenant) {
        for (Stages<Object> each : instances) {
            if (each.wants(Tier.USERS, tenant) || each.wants(Tier.BACKGROUND, tenant)) {
                return true;
            }
        }
        return false;
    }

    /** Whether a second tenant was ever seen. Until then everything goes on as it comes. */
    public boolean several() {
        return seen.several();
    }

    /** Instances for what comes from upstream. Call queues may have more. */
    public int count() {
        return first;
    }

    /** The instance of this number, which is made if it is not there. */
    public Stages<Object> instance(int number) {
        return number < instances.length ? instances[number] : more(number + 1);
    }

    /** The instance of a stage that hands out at one place. */
    Stages<Object> of(Stage stage) {
        return instances[stage.ordinal() % first];
    }

    /** The instance of a call queue whose calls are served apart from all others'. */
    public Stages<Object> queue() {
        return instance(first + queues.getAndIncrement());
    }

    /** What one instance is charged for something that counts at all of them alike: as much as for calls, on average. */
    long part(long costNs) {
        return costNs / first;
    }

    /** Charges this part to all instances but one, which has been charged. */
    void chargeOthers(Stages<Object> charged, Tier tier, Tenants.Tenant tenant, Resource resource, long partNs) {
        for (Stages<Object> each : instances) {
            if (each != charged) {
                each.charge(tier, tenant.number, tenant.weight(), resource, partNs);
            }
        }
    }

    /** Things queued at a stage, in all instances. */
    public int queued(Stage stage) {
        int sum = 0;
        for (Stages<Object> each : instances) {
            sum += each.size(stage.ordinal());
        }
        return sum;
    }

    /** Keeps a tenant's requests at a stage, or lets them go on. */
    public void hold(Stage stage, int tenant, Stages.Reason reason, boolean held) {
        for (Stages<Object> each : instances) {
            each.hold(stage.ordinal(), Tier.USERS, tenant, reason, held);
        }
    }

    /** Asks this at a stage whether one more of a client's requests may be taken; {@code null}: none is asked. */
    synchronized void setEntry(Stage stage, Stages.Entry asks) {
        asked = stage;
        entry = asks;
        for (Stages<Object> each : instances) {
            each.setEntry(stage.ordinal(), asks);
        }
    }

    /** Looks at what runs: see {@link Running#look}. */
    public boolean look() {
        boolean again = false;
        for (Stages<Object> each : instances) {
            again |= each.running().look(looks);
        }
        return again;
    }

    /** A period is over: see {@link Stages#tick}. */
    public void tick() {
        for (Stages<Object> each : instances) {
            each.tick();
        }
    }

    private synchronized Stages<Object> more(int count) {
        if (count > instances.length) {
            Stages<Object>[] longer = make(count);
            System.arraycopy(instances, 0, longer, 0, instances.length);
            instances = longer;
        }
        return instances[count - 1];
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private Stages<Object>[] make(int count) {
        Stages<Object>[] made = new Stages[count];
        for (int number = 0; number < count; number++) {
            made[number] = new Stages<>(Stage.COUNT, Resource.COUNT, seen);
            if (entry != null) {
                made[number].setEntry(asked.ordinal(), entry);
            }
        }
        return made;
    }
}
