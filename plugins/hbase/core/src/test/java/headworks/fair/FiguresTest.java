package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class FiguresTest {
    /** What a recorder of threads is told: stages that are enforced, once a thread of theirs is known. */
    @Test
    void whatIsScheduledIsToldWhenItChanges() {
        Figures figures = new Scheduler(1).figures();
        List<String> told = new ArrayList<>();
        figures.hears(told::add);
        figures.enforce(Stage.HANDLE);
        figures.works(Stage.HANDLE);
        assertEquals("[]", last(told), "no code of the stage calls the scheduler");
        figures.install(Stage.HANDLE);
        String thread = Figures.quoted(Thread.currentThread().getName());
        String handle = "{\"stage\":\"RPC Handle\",\"thread\":" + thread + ",\"permits\":0,\"held\":true,\"tries\":";
        assertEquals("[" + handle + "0}]", last(told));
        figures.tries(Stage.HANDLE, 2);
        figures.enforce(Stage.XCEIVE, 4);
        figures.install(Stage.XCEIVE);
        assertEquals("[" + handle + "2}]", last(told), "no thread is known that works at the other stage");
        figures.works(Stage.XCEIVE);
        assertEquals("[" + handle + "2},{\"stage\":\"Data Xceiver\",\"thread\":" + thread + ",\"permits\":4,\"held\":false,\"tries\":0}]", last(told));
        figures.release(Stage.XCEIVE, "switched off");
        Thread.currentThread().setName("handler=1");
        figures.works(Stage.HANDLE);
        Thread.currentThread().setName("handler=2");
        figures.works(Stage.HANDLE);
        assertEquals(2, last(told).split("RPC Handle", -1).length - 1, "threads of two names: " + last(told));
        figures.release(Stage.HANDLE, "switched off");
        assertEquals("[]", last(told));
    }

    @Test
    void aStageThatCannotBeInstalledSaysWhyUnlessAnotherPartOfItCanBe() {
        Figures figures = new Scheduler(1).figures();
        assertTrue(figures.why(Stage.READ).startsWith("no agent"), figures.why(Stage.READ));
        figures.lacks(Stage.READ, "no such method");
        assertEquals("no such method", figures.why(Stage.READ));
        figures.install(Stage.READ);
        assertEquals("", figures.why(Stage.READ));
        figures.lacks(Stage.READ, "no such method");
        assertEquals("", figures.why(Stage.READ));
    }

    @Test
    void failedCallsAndConnectionsAreToldByTenant() {
        Scheduler scheduler = new Scheduler(1);
        Figures figures = scheduler.figures();
        Tenants.Tenant alice = scheduler.tenants().of("alice");
        String nothing = "\"connections\":0,\"failed\":{}";
        assertEquals(3, figures.tenants(10).split(Pattern.quote(nothing), -1).length, figures.tenants(10));
        figures.fails(alice, "RpcThrottlingException");
        figures.fails(alice, "RegionTooBusyException");
        figures.fails(alice, "RpcThrottlingException");
        figures.connections(() -> Map.of("alice", 4));
        String told = figures.tenants(10);
        assertTrue(told.contains("\"connections\":4,\"failed\":{\"RegionTooBusyException\":1,\"RpcThrottlingException\":2}"), told);
        assertTrue(told.contains(nothing), "the others have none: " + told);
    }

    private static String last(List<String> told) {
        return told.get(told.size() - 1);
    }
}
