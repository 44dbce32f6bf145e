package headworks.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import headworks.fair.Escape;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a DataNode is told, as {@code headworks hbase enable} writes it. */
class OptionsTest {
    private static final Path PROGRAM = Path.of("..", "..", "..", "target", "debug", "headworks-hbase").toAbsolutePath().normalize();

    @TempDir
    Path directory;

    @Test
    void whatTheProgramWritesIsWhatTheAgentReads() throws Exception {
        assumeTrue(Files.isExecutable(PROGRAM), "skipped: headworks-hbase is not built (cargo build --workspace)");
        Path conf = Files.createDirectory(directory.resolve("conf"));
        Path hadoop = Files.createDirectory(directory.resolve("hadoop"));
        Files.writeString(conf.resolve("hbase-site.xml"), "<configuration>\n</configuration>\n");
        for (String jar : List.of("headworks-hbase-1.jar", "headworks-hbase-agent-1.jar")) {
            Files.writeString(directory.resolve(jar), "");
        }
        List<String> enable = List.of(PROGRAM.toString(), "enable", "--conf", conf.toString(), "--hadoop-conf", hadoop.toString(), "--jars", directory.toString(),
            "--controller", "one:7700,two:7700, three:7700", "--set", "headworks.controller.token.file=/etc/headworks/token",
            "--set", "headworks.controller.tls=true", "--set", "headworks.weights=alice=3, Zoë \"$HOME\" `x`;b=0.5");
        assertEquals(0, new ProcessBuilder(enable).inheritIO().start().waitFor());
        // As Hadoop's scripts do: the variable's words are the JVM's arguments.
        Process shell = new ProcessBuilder("bash", "-c", ". \"$0\"; printf '%s\\n' $HDFS_DATANODE_OPTS", hadoop.resolve("hadoop-env.sh").toString()).start();
        String said = new String(shell.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        Properties properties = new Properties();
        List<String> agents = new ArrayList<>();
        for (String word : said.lines().toList()) {
            if (word.startsWith("-D")) {
                int sign = word.indexOf('=');
                properties.setProperty(word.substring(2, sign), word.substring(sign + 1));
            } else {
                assertTrue(word.startsWith("-javaagent:" + directory.resolve("headworks-hbase-agent-1.jar") + "="), word);
                agents.add(word.substring(word.indexOf('=') + 1));
            }
        }
        assertEquals(1, agents.size(), said);
        Options options = Options.read(agents.get(0), properties);
        assertEquals(List.of(), options.wrong());
        assertEquals(List.of("one:7700", "two:7700", "three:7700"), options.controllers());
        assertEquals("/etc/headworks/token", options.tokenFile());
        assertTrue(options.tls());
        assertEquals(Map.of("alice", 3_000, "Zoë \"$HOME\" `x`;b", 500), options.weights());
    }

    @Test
    void whatEarlierVersionsWroteIsReadAndWhatIsWrongIsSaid() {
        Options options = Options.read("permits=8,controller=one:7700,two:7700", new Properties());
        assertEquals(8, options.permits());
        assertEquals(List.of("one:7700", "two:7700"), options.controllers());
        assertEquals(List.of(), options.wrong());
        Properties properties = new Properties();
        properties.setProperty("headworks.weights", "alice=three");
        assertEquals(3, Options.read("permits=x,speed=1", properties).wrong().size());
    }

    @Test
    void aNameGoesToTheDataNodeAndComesBackWhateverItHolds() {
        for (String name : new String[] {"alice", "x#t=gold", "Zoë Müller", "n".repeat(200)}) {
            headworks.fair.Here.set(name);
            String client = Names.mark("DFSClient_NONMAPREDUCE_1_2");
            headworks.fair.Here.set(null);
            assertTrue(client.matches("[!-~]+"), client);
            assertEquals(name, Names.tenant(client));
        }
        // An earlier version's region server.
        assertEquals("Zo__M_ller", Names.tenant("DFSClient_1#t=Zo__M_ller"));
        assertEquals("gold", Escape.name("gold"));
    }
}
