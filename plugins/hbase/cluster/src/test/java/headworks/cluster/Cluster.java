package headworks.cluster;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * A small HBase on HDFS, each part a process: ZooKeeper, NameNode, DataNode, HMaster, HRegionServers.
 * In tests one has the architecture that is the default, the other one the classic.
 *
 * <p>Ports are fixed. A network namespace of the test keeps others away: see {@code scripts/test-hbase}.
 * All files are below a temporary directory, which goes with the cluster.
 */
final class Cluster implements AutoCloseable {
    private static final Path JAVA = Path.of(System.getProperty("java.home"), "bin", "java");
    private static final List<String> QUICK_TO_START = List.of("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto");
    /** HBase reads and changes fields of the JDK. */
    private static final List<String> OPENED = List.of(
        "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
        "--add-opens=java.base/java.nio=ALL-UNNAMED");

    /** Ports of the two region servers, and of the pages that they and the DataNode have. */
    static final int DEFAULT = 16020;
    static final int CLASSIC = 16120;
    static final int DEFAULT_PAGE = 16030;
    static final int CLASSIC_PAGE = 16130;
    static final int DATANODE_PAGE = 9864;
    /** More than any test has clients: there the handlers are not what calls wait for. */
    static final int CLASSIC_HANDLERS = 100;

    private static final Path AGENT = Path.of("..", "agent", "target", "headworks-hbase-agent-1.jar").toAbsolutePath().normalize();

    private final Path directory = Files.createTempDirectory("headworks-hbase-");
    private final Path conf = directory.resolve("conf");
    private final List<Process> processes = new ArrayList<>();
    private final Map<String, String> hbase = new TreeMap<>();
    private final Map<String, String> hdfs = new TreeMap<>();

    /** A region server: where it listens, whether it has the agent, and what it sets otherwise. */
    record Server(String name, int port, int page, boolean agent, List<String> settings) {}

    static final Server BY_DEFAULT = new Server("regionserver", DEFAULT, DEFAULT_PAGE, true, List.of());
    static final Server BY_CLASSIC = new Server("regionserver-classic", CLASSIC, CLASSIC_PAGE, true,
        List.of("hbase.wal.provider=filesystem", "hbase.rpc.server.impl=org.apache.hadoop.hbase.ipc.SimpleRpcServer",
            "hbase.regionserver.handler.count=" + CLASSIC_HANDLERS, "hbase.ipc.server.callqueue.handler.factor=0.02"));

    private final List<Server> servers;
    private final List<String> quick;

    /** A cluster whose JVMs start quickly; for measurements they are as they come. */
    Cluster(Map<String, String> settings, boolean measured, Server... servers) throws IOException {
        this.servers = List.of(servers);
        quick = measured ? List.of("-XX:+UseSerialGC") : QUICK_TO_START;
        try {
            hbase.put("hbase.rootdir", "hdfs://127.0.0.1:9000/hbase");
            hbase.put("hbase.cluster.distributed", "true");
            hbase.put("hbase.zookeeper.quorum", "127.0.0.1");
            hbase.put("hbase.master.hostname", "127.0.0.1");
            hbase.put("hbase.regionserver.hostname", "127.0.0.1");
            hbase.put("hbase.master.info.port", "-1");
            hbase.put("hbase.regionserver.info.bindAddress", "127.0.0.1");
            hbase.put("hbase.tmp.dir", directory.resolve("tmp").toString());
            hbase.put("hbase.wal.dir", "hdfs://127.0.0.1:9000/wal");
            settings.forEach((key, value) -> (key.startsWith("dfs.") ? hdfs : hbase).put(key, value));
            configure();
            start();
        } catch (IOException | RuntimeException failed) {
            close();
            throw failed;
        }
    }

    int regionServers() {
        return servers.size();
    }

    /** Where the configuration is: clients of the cluster read it too. */
    Path hbaseSite() {
        return conf.resolve("hbase-site.xml");
    }

    /** Changes settings in {@code hbase-site.xml}. Servers read it anew when they are told to. */
    void set(String key, String value) {
        hbase.put(key, value);
        site("hbase-site.xml", hbase);
    }

    private void configure() throws IOException {
        Files.createDirectories(conf);
        for (String page : List.of("hdfs", "datanode", "static", "logs", "secondary")) {
            // Hadoop looks for its web pages, which its jar does not have.
            Files.createDirectories(conf.resolve("webapps").resolve(page));
        }
        for (String page : List.of("regionserver", "static")) {
            Files.createDirectories(conf.resolve("hbase-webapps").resolve(page));
        }
        site("core-site.xml", Map.of("fs.defaultFS", "hdfs://127.0.0.1:9000",
            "hadoop.tmp.dir", directory.resolve("hadoop").toString()));
        hdfs.put("dfs.replication", "1");
        hdfs.put("dfs.namenode.http-address", "127.0.0.1:9870");
        hdfs.put("dfs.datanode.address", "127.0.0.1:9866");
        hdfs.put("dfs.datanode.http.address", "127.0.0.1:9864");
        hdfs.put("dfs.datanode.ipc.address", "127.0.0.1:9867");
        hdfs.put("dfs.datanode.hostname", "127.0.0.1");
        hdfs.put("dfs.namenode.safemode.extension", "0");
        hdfs.put("dfs.permissions.enabled", "false");
        hdfs.put("dfs.namenode.datanode.registration.ip-hostname-check", "false");
        site("hdfs-site.xml", hdfs);
        site("hbase-site.xml", hbase);
        Files.writeString(conf.resolve("zoo.cfg"), "tickTime=500\nclientPort=2181\nclientPortAddress=127.0.0.1\n"
            + "admin.enableServer=false\ndataDir=" + directory.resolve("zookeeper") + "\n");
        Files.writeString(conf.resolve("log4j.properties"), "log4j.rootLogger=INFO,out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            + "log4j.appender.out.layout=org.apache.log4j.PatternLayout\nlog4j.appender.out.layout.ConversionPattern=%d %p [%t] %c: %m%n\n"
            // Each read, with the name of its client.
            + "log4j.logger.org.apache.hadoop.hdfs.server.datanode.DataNode.clienttrace=DEBUG\n");
    }

    private void start() throws IOException {
        launch("zookeeper", 128, "org.apache.zookeeper.server.quorum.QuorumPeerMain", conf.resolve("zoo.cfg").toString());
        String nameNode = "org.apache.hadoop.hdfs.server.namenode.NameNode";
        Process format = launch("format", 256, nameNode, "-format", "-nonInteractive");
        try {
            if (!format.waitFor(60, TimeUnit.SECONDS) || format.exitValue() != 0) {
                throw new IOException("the NameNode's directory was not made:\n" + tail("format"));
            }
        } catch (InterruptedException stop) {
            throw new IOException(stop);
        }
        launch("namenode", 256, nameNode);
        launch("datanode", 256, "org.apache.hadoop.hdfs.server.datanode.DataNode");
        launch("master", 384, "org.apache.hadoop.hbase.master.HMaster", "start");
        for (Server server : servers) {
            List<String> arguments = new ArrayList<>(List.of("-D", "hbase.regionserver.port=" + server.port,
                "-D", "hbase.regionserver.info.port=" + server.page));
            server.settings.forEach(each -> arguments.addAll(List.of("-D", each)));
            arguments.add("start");
            launch(server.name, 768, "org.apache.hadoop.hbase.regionserver.HRegionServer", arguments.toArray(String[]::new));
        }
        await("master", "Master has completed initialization");
    }

    private Process launch(String name, int heapMb, String main, String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(JAVA.toString(), "-Xmx" + heapMb + "m"));
        command.addAll(quick);
        command.addAll(OPENED);
        boolean withAgent = servers.stream().anyMatch(Server::agent);
        if (withAgent && name.equals("datanode") || servers.stream().anyMatch(each -> each.agent && each.name.equals(name))) {
            command.add("-javaagent:" + AGENT);
        }
        command.addAll(List.of("-cp", conf + File.pathSeparator + System.getProperty("java.class.path"), main));
        command.addAll(Arrays.asList(arguments));
        Process process = new ProcessBuilder(command).directory(directory.toFile()).redirectErrorStream(true)
            .redirectOutput(log(name).toFile()).start();
        processes.add(process);
        return process;
    }

    /** Waits until a server says something. Two minutes: on two busy processors a cluster needs half a minute. */
    void await(String name, String text) throws IOException {
        await(name, text, text);
    }

    /** The same for a line that has both. */
    void await(String name, String text, String also) throws IOException {
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(2);
        while (!says(name, text, also)) {
            boolean died = processes.stream().anyMatch(process -> !process.isAlive() && process.exitValue() != 0);
            if (died || System.nanoTime() > end) {
                throw new IOException(name + " has not said \"" + text + "\" with \"" + also + "\":\n" + tail(name));
            }
            try {
                Thread.sleep(100);
            } catch (InterruptedException stop) {
                throw new IOException(stop);
            }
        }
    }

    private boolean says(String name, String text, String also) throws IOException {
        try (Stream<String> lines = Files.lines(log(name))) {
            return lines.anyMatch(line -> line.contains(text) && line.contains(also));
        }
    }

    private Path log(String name) {
        return directory.resolve(name + ".log");
    }

    String tail(String name) throws IOException {
        List<String> lines = Files.readAllLines(log(name));
        return String.join("\n", lines.subList(Math.max(0, lines.size() - 40), lines.size()));
    }

    private void site(String file, Map<String, String> settings) {
        StringBuilder text = new StringBuilder("<configuration>\n");
        settings.forEach((key, value) -> text.append("<property><name>").append(key).append("</name><value>")
            .append(value).append("</value></property>\n"));
        try {
            // A server may read it at any time: it sees the old text or the whole of the other.
            Path written = conf.resolve(file + ".part");
            Files.writeString(written, text.append("</configuration>\n"));
            Files.move(written, conf.resolve(file), java.nio.file.StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    /** Ends all processes at once, and removes the files. */
    @Override
    public void close() throws IOException {
        processes.forEach(Process::destroyForcibly);
        processes.forEach(process -> process.onExit().join());
        String kept = System.getenv("HEADWORKS_KEEP");
        if (kept != null) {
            System.err.println("kept: " + directory);
            return;
        }
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        }
    }
}
