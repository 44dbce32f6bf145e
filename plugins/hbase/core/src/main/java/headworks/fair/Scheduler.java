package headworks.fair;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The scheduler of a process: its tenants, and the instances that all stages share. Upstream puts a
 * request into a random instance. A downstream thread takes from the one that it was assigned.
 *
 * <p>Some stages hand out at one place: the network's thread, a gate's permits. Such a stage has one
 * instance, {@link #of}. With several, turns would decide between them, and no share.
 */
public final class Scheduler {
    /** Three were enough for the dissertation's region servers (section 4.4.1). */
    public static final int INSTANCES = 3;

    private static final Scheduler HERE = new Scheduler(Math.max(1, Integer.getInteger("headworks.instances", INSTANCES)));

    private final Tenants tenants = new Tenants();
    private final Seen seen = new Seen();
    private final Figures figures = new Figures(this);
    private final Limits limits = new Limits(this);
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

    public int count() {
        return instances.length;
    }

    /** The instance of this number, which is made if it is not there. */
    public Stages<Object> instance(int number) {
        return number < instances.length ? instances[number] : more(number + 1);
    }

    /** Any instance, for what comes from upstream. */
    public Stages<Object> any() {
        Stages<Object>[] all = instances;
        return all[ThreadLocalRandom.current().nextInt(all.length)];
    }

    /** The instance of a stage that hands out at one place. */
    Stages<Object> of(Stage stage) {
        return instances[stage.ordinal() % first];
    }

    /** The instance of the next call queue: each has another. */
    public Stages<Object> queue() {
        return instance(queues.getAndIncrement());
    }

    /** What one instance is charged for something that counts at all of them alike: as much as for calls, on average. */
    long part(long costNs) {
        int parts = queues.get();
        return costNs / (parts == 0 ? instances.length : parts);
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
