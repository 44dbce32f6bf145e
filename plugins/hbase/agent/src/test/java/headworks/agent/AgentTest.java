package headworks.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class AgentTest {
    private static final String COMMAND = "sun.java.command";
    private final String command = System.getProperty(COMMAND, "");

    @AfterEach
    void restore() {
        System.setProperty(COMMAND, command);
    }

    @Test
    void everyMethodIsThereInTheVersionsThatTheJarsAreBuiltAgainst() {
        for (String main : new String[] {"org.apache.hadoop.hbase.regionserver.HRegionServer start", "org.apache.hadoop.hdfs.server.datanode.DataNode"}) {
            System.setProperty(COMMAND, main);
            assertEquals(List.of(), Agent.check(getClass().getClassLoader()), main);
        }
    }

    @Test
    void aMethodOrClassThatIsNotThereIsNamed() {
        System.setProperty(COMMAND, "org.apache.hadoop.hdfs.server.datanode.DataNode");
        // The JDK's own classes only: another version has nothing under these names.
        List<String> lacks = Agent.check(ClassLoader.getPlatformClassLoader());
        assertEquals(4, lacks.size(), "" + lacks);
        assertTrue(lacks.get(0).contains("DataXceiver for TenantOfRead: there is no such class"), lacks.get(0));
    }
}
