package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class SizeTest {
    private static final int TENANTS = 20_000;
    private static final long MOST_BYTES = 50_000_000;

    @Test
    void manyTenantsFitIntoARegionServer() {
        long before = used();
        Scheduler scheduler = new Scheduler(Scheduler.INSTANCES);
        for (int number = 0; number < TENANTS; number++) {
            Tenants.Tenant tenant = scheduler.tenants().of("tenant-" + number);
            for (int instance = 0; instance < scheduler.count(); instance++) {
                for (Stage stage : new Stage[] {Stage.HANDLE, Stage.RESPOND, Stage.LOG}) {
                    scheduler.instance(instance).add(stage.ordinal(), Tier.USERS, tenant.number, tenant.weight(), "call", 100);
                    scheduler.instance(instance).poll(stage.ordinal());
                }
            }
        }
        long bytes = used() - before;
        System.err.println(TENANTS + " tenants: " + bytes / 1_000_000 + " MB");
        assertTrue(bytes <= MOST_BYTES, "" + bytes);
        assertTrue(scheduler.several());
    }

    private static long used() {
        for (int turn = 0; turn < 3; turn++) {
            System.gc();
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
