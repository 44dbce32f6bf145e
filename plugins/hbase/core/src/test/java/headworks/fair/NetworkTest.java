package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;

class NetworkTest {
    private final Scheduler scheduler = new Scheduler(1);
    private final Network network = new Network(scheduler);
    private final StringBuffer sent = new StringBuffer();

    private boolean later(String who, long bytes, CountDownLatch done) {
        Network.Parcel parcel = new Network.Parcel(scheduler.tenants().of(who), bytes) {
            @Override
            protected void send() {
                sent.append(who);
                done.countDown();
            }
        };
        boolean later = network.later(Stage.RESPOND, Tier.USERS, parcel);
        if (!later) {
            parcel.send();
        }
        return later;
    }

    @Test
    void withoutARateOrASecondTenantAllIsSentAtOnce() {
        CountDownLatch none = new CountDownLatch(1);
        assertFalse(later("a", 1, none));
        assertFalse(later("b", 1, none));
        Scheduler alone = new Scheduler(1);
        Network paced = new Network(alone);
        paced.setRate(1);
        Network.Parcel parcel = new Network.Parcel(alone.tenants().of("a"), 1_000_000_000) {
            @Override
            protected void send() {}
        };
        assertFalse(paced.later(Stage.RESPOND, Tier.USERS, parcel));
        assertFalse(paced.later(Stage.RESPOND, Tier.USERS, parcel));
    }

    @Test
    void bytesAreSharedWhateverTheNumberOfResponses() throws Exception {
        network.setRate(1_000_000);
        CountDownLatch done = new CountDownLatch(222);
        later("b", 1, done);
        // The first of several takes the idle network; the others queue behind it.
        later("a", 100_000, done);
        for (int at = 0; at < 20; at++) {
            later("a", 10_000, done);
        }
        for (int at = 0; at < 200; at++) {
            later("b", 1_000, done);
        }
        done.await();
        String order = sent.toString();
        String half = order.substring(0, order.length() / 2);
        long count = half.chars().filter(each -> each == 'a').count();
        long large = 100_000 + 10_000 * (count - 1);
        long small = 1_000 * (half.length() - count);
        assertEquals(222, order.length());
        assertTrue(Math.abs(large - small) <= 25_000, large + " bytes and " + small + ": " + order);
    }

    @Test
    void whoWaitsForThePacketsTurnGoesOn() {
        network.setRate(10_000_000);
        network.await(Stage.STREAM, Tier.USERS, scheduler.tenants().of("a"), 100_000);
        for (int at = 0; at < 20; at++) {
            network.await(Stage.STREAM, Tier.USERS, scheduler.tenants().of("b"), 100_000);
        }
        assertEquals(0, scheduler.figures().passed(Stage.STREAM));
    }
}
