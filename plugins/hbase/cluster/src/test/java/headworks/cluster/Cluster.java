package headworks.cluster;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A small HBase on HDFS, each part a process: ZooKeeper, NameNode, DataNode, HMaster, HRegionServers.
 * In tests one has the architecture that is the default, the other one the classic.
 *
 * <p>Ports are fixed. A network namespace of the test keeps others away: see {@code scripts/test-hbase}.
 * All files are below a temporary directory, which goes with the cluster.
 */
final class Cluster implements AutoCloseable {
    private static final String MASTER = "org.apache.hadoop.hbase.master.HMaster";
    /** Alone on two processors a cluster needs half a minute. Where builds go on beside it, it needed more than two. */
    private static final int PATIENCE_MINUTES = 5;
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
    /** Those of the region server of a second HBase, and where in ZooKeeper that is. */
    static final int SECOND = 16220;
    static final int SECOND_PAGE = 16230;
    static final String SECOND_ZNODE = "/second";
    /** DataNodes after the first have ports that are so much larger each. */
    static final int NEXT_DATANODE = 10;
    static final int DATANODE = 9866;
    /** More than any test has clients: there the handlers are not what calls wait for. */
    static final int CLASSIC_HANDLERS = 100;

    static final Path PROGRAMS = Path.of("..", "..", "..", "target", "debug").toAbsolutePath().normalize();
    private static final Path AGENT = Path.of("..", "agent", "target", "headworks-hbase-agent-1.jar").toAbsolutePath().normalize();

    /** Jars of another version of HBase and Hadoop than clients have; {@code null}: servers have the same. See {@code scripts/test-hbase}. */
    static final String SERVERS = System.getenv("HEADWORKS_SERVERS");

    private final Path directory = Files.createTempDirectory("headworks-hbase-");
    private final Path conf = directory.resolve("conf");
    /** What runs, by name, and by what command each was started. One that was killed runs no more. */
    private final Map<String, Process> processes = new LinkedHashMap<>();
    private final Map<String, List<String>> commands = new LinkedHashMap<>();
    private final Map<String, String> hbase = new TreeMap<>();
    private final Map<String, String> hdfs = new TreeMap<>();

    /** A region server: where it listens, whether it has the agent, and what it sets otherwise. */
    record Server(String name, int port, int page, boolean agent, List<String> settings) {}

    static final Server BY_DEFAULT = new Server("regionserver", DEFAULT, DEFAULT_PAGE, true, List.of());
    static final Server BY_CLASSIC = new Server("regionserver-classic", CLASSIC, CLASSIC_PAGE, true,
        List.of("hbase.wal.provider=filesystem", "hbase.rpc.server.impl=org.apache.hadoop.hbase.ipc.SimpleRpcServer",
            "hbase.regionserver.handler.count=" + CLASSIC_HANDLERS, "hbase.ipc.server.callqueue.handler.factor=0.02"));

    /** The region server of a second HBase: two handlers, one call queue. Its edits come in shipments of a thousand. */
    private static final Server OTHER = new Server("regionserver-second", SECOND, SECOND_PAGE, true,
        List.of("hbase.regionserver.handler.count=2", "hbase.ipc.server.callqueue.handler.factor=0", "headworks.log.outstanding=10"));

    /** The processor that region servers have; {@code null}: all. */
    static String processor;

    private final List<Server> servers;
    /** What each DataNode sets otherwise. */
    private final List<List<String>> dataNodes;
    private final List<String> quick;
    /** What {@code headworks hbase enable} is told, {@code null} where the test writes the configuration itself. */
    private final List<String> enable;

    /** A cluster whose JVMs start quickly; for measurements they are as they come. */
    Cluster(Map<String, String> settings, boolean measured, Server... servers) throws IOException {
        this(settings, measured, List.of(List.of()), servers);
    }

    /** The same with as many DataNodes as there are lists of settings. */
    Cluster(Map<String, String> settings, boolean measured, List<List<String>> dataNodes, Server... servers) throws IOException {
        this(settings, measured, dataNodes, null, servers);
    }

    /** The same with a configuration as the page's commands make it: servers are started by its env files. */
    Cluster(Map<String, String> settings, boolean measured, List<List<String>> dataNodes, List<String> enable, Server... servers) throws IOException {
        this.enable = enable;
        this.servers = List.of(servers);
        this.dataNodes = dataNodes;
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
            if (enable != null) {
                enable();
            }
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
        hdfs.putIfAbsent("dfs.replication", "1");
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
        // Twenty ticks would be ZooKeeper's own limit: on a busy machine servers are silent for as long.
        Files.writeString(conf.resolve("zoo.cfg"), "tickTime=500\nmaxSessionTimeout=60000\nclientPort=2181\nclientPortAddress=127.0.0.1\n"
            + "admin.enableServer=false\ndataDir=" + directory.resolve("zookeeper") + "\n");
        // Figures that are asked for are a second old at most. Usually it is ten.
        Files.writeString(conf.resolve("hadoop-metrics2.properties"), "*.period=1\n");
        Files.writeString(conf.resolve("log4j.properties"), "log4j.rootLogger=INFO,out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            + "log4j.appender.out.layout=org.apache.log4j.PatternLayout\nlog4j.appender.out.layout.ConversionPattern=%d %p [%t] %c: %m%n\n"
            // Each read, with the name of its client.
            + "log4j.logger.org.apache.hadoop.hdfs.server.datanode.DataNode.clienttrace=DEBUG\n");
    }

    private void start() throws IOException {
        launch("zookeeper", 128, "org.apache.zookeeper.server.quorum.QuorumPeerMain", conf.resolve("zoo.cfg").toString());
        String nameNode = "org.apache.hadoop.hdfs.server.namenode.NameNode";
        if (run("format", Map.of(), command("format", 256, nameNode, "-format", "-nonInteractive")) != 0) {
            throw new IOException("the NameNode's directory was not made:\n" + tail("format"));
        }
        launch("namenode", 256, nameNode);
        for (int number = 0; number < dataNodes.size(); number++) {
            dataNode(number);
        }
        // HBase's servers give up if what they need is late: on a busy machine it is.
        awaitPort(2181);
        awaitPort(9000);
        launch("master", 384, MASTER, "start");
        for (Server server : servers) {
            regionServer(server, List.of());
        }
        await("master", "Master has completed initialization");
    }

    private void regionServer(Server server, List<String> more) throws IOException {
        List<String> arguments = new ArrayList<>(settings(List.of("hbase.regionserver.port=" + server.port,
            "hbase.regionserver.info.port=" + server.page)));
        arguments.addAll(settings(server.settings));
        arguments.addAll(settings(more));
        arguments.add("start");
        List<String> command = command(server.name, 768, "org.apache.hadoop.hbase.regionserver.HRegionServer", arguments.toArray(String[]::new));
        if (processor != null) {
            command.addAll(0, List.of("taskset", "-c", processor));
        }
        launch(server.name, command);
    }

    /** Starts a second HBase on the same ZooKeeper and HDFS: a master and one region server. What its clients set otherwise. */
    Map<String, String> startSecond() throws IOException {
        Map<String, String> where = Map.of("zookeeper.znode.parent", SECOND_ZNODE, "hbase.rootdir", "hdfs://127.0.0.1:9000/second",
            "hbase.wal.dir", "hdfs://127.0.0.1:9000/second-wal");
        List<String> more = new ArrayList<>(where.entrySet().stream().map(each -> each.getKey() + "=" + each.getValue()).toList());
        regionServer(OTHER, more);
        more.add("hbase.master.port=16200");
        List<String> arguments = new ArrayList<>(settings(more));
        arguments.add("start");
        launch("master-second", 384, MASTER, arguments.toArray(String[]::new));
        await("master-second", "Master has completed initialization");
        return where;
    }

    void endSecond() {
        kill("master-second");
        kill(OTHER.name);
    }

    private void dataNode(int number) throws IOException {
        int more = number * NEXT_DATANODE;
        List<String> all = new ArrayList<>(List.of("dfs.datanode.address=127.0.0.1:" + (DATANODE + more),
            "dfs.datanode.http.address=127.0.0.1:" + (DATANODE_PAGE + more), "dfs.datanode.ipc.address=127.0.0.1:" + (9867 + more),
            "dfs.datanode.data.dir=" + directory.resolve("data-" + number)));
        all.addAll(dataNodes.get(number));
        launch(dataNodeName(number), 256, "org.apache.hadoop.hdfs.server.datanode.DataNode", settings(all).toArray(String[]::new));
    }

    static String dataNodeName(int number) {
        return number == 0 ? "datanode" : "datanode-" + number;
    }

    private static List<String> settings(List<String> all) {
        return all.stream().flatMap(each -> Stream.of("-D", each)).toList();
    }

    /** Runs the page's first command. */
    private void enable() throws IOException {
        Path jars = Files.createDirectories(directory.resolve("jars"));
        for (Path jar : List.of(AGENT, Path.of("..", "plugin", "target", "headworks-hbase-1.jar"))) {
            Files.copy(jar, jars.resolve(jar.getFileName()));
        }
        // Lists of nodes, which `doctor` reads.
        Files.writeString(conf.resolve("regionservers"), "127.0.0.1\n");
        Files.writeString(conf.resolve("workers"), "127.0.0.1\n");
        List<String> all = new ArrayList<>(List.of("enable"));
        all.addAll(enable);
        all.addAll(List.of("--jars", jars.toString()));
        if (ours(all) != 0) {
            throw new IOException(tail("ours"));
        }
    }

    /** Runs {@code headworks hbase} on this configuration: its exit status. What it says is in the log {@code ours}. */
    int ours(List<String> arguments) throws IOException {
        List<String> all = new ArrayList<>(List.of(PROGRAMS.resolve("headworks-hbase").toString()));
        all.addAll(arguments);
        all.addAll(List.of("--conf", conf.toString(), "--hadoop-conf", conf.toString()));
        return run("ours", Map.of(), all);
    }

    /** The words of a variable of an env file, as scripts of HBase and Hadoop pass them on. */
    private List<String> words(String file, String variable) {
        try {
            Process shell = new ProcessBuilder("bash", "-c", ". \"$0\"; printf '%s\\n' $" + variable, conf.resolve(file).toString()).start();
            return new String(shell.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8).lines().filter(each -> !each.isEmpty()).toList();
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    private List<String> command(String name, int heapMb, String main, String... arguments) {
        List<String> command = new ArrayList<>(List.of(JAVA.toString(), "-Xmx" + heapMb + "m"));
        command.addAll(quick);
        command.addAll(OPENED);
        boolean withAgent = servers.stream().anyMatch(Server::agent);
        if (enable != null) {
            boolean isServer = servers.stream().anyMatch(each -> each.name.equals(name));
            command.addAll(name.startsWith("datanode") ? words("hadoop-env.sh", "HDFS_DATANODE_OPTS")
                : isServer ? words("hbase-env.sh", "HBASE_REGIONSERVER_OPTS") : List.of());
        } else if (withAgent && name.startsWith("datanode")) {
            // A DataNode's agent is told of controllers by its argument.
            command.add("-javaagent:" + AGENT + (hbase.containsKey("headworks.controller") ? "=controller=" + hbase.get("headworks.controller") : ""));
        } else if (Stream.concat(servers.stream(), Stream.of(OTHER)).anyMatch(each -> each.agent && each.name.equals(name))) {
            command.add("-javaagent:" + AGENT);
        }
        command.addAll(List.of("-cp", conf + File.pathSeparator + classPath(), main));
        command.addAll(Arrays.asList(arguments));
        return command;
    }

    /** What servers load: the plug-in, classes of tests, and jars of HBase and Hadoop. */
    private static String classPath() {
        String here = System.getProperty("java.class.path");
        if (SERVERS == null) {
            return here;
        }
        Path ours = Path.of("..").toAbsolutePath().normalize();
        return Stream.of(here.split(File.pathSeparator)).filter(each -> Path.of(each).startsWith(ours))
            .collect(Collectors.joining(File.pathSeparator)) + File.pathSeparator + SERVERS + File.separator + "*";
    }

    private void launch(String name, int heapMb, String main, String... arguments) throws IOException {
        launch(name, command(name, heapMb, main, arguments));
    }

    /** Starts a program that belongs to the cluster and ends with it. */
    void launch(String name, List<String> command) throws IOException {
        commands.put(name, command);
        restart(name);
    }

    /** Starts a program again that was killed. It goes on with its files and its log. */
    void restart(String name) throws IOException {
        processes.put(name, process(name, commands.get(name)).start());
    }

    private ProcessBuilder process(String name, List<String> command) {
        return new ProcessBuilder(command).directory(directory.toFile()).redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(log(name).toFile()));
    }

    /** Kills a program: it cannot do anything more. */
    void kill(String name) {
        processes.remove(name).destroyForcibly().onExit().join();
    }

    /** Has a program collect its garbage. */
    void collect(String name) throws IOException {
        String jcmd = JAVA.resolveSibling("jcmd").toString();
        if (run("collect", Map.of(), List.of(jcmd, "" + processes.get(name).pid(), "GC.run")) != 0) {
            throw new IOException("no garbage was collected:\n" + tail("collect"));
        }
    }

    /** HBase's own tests have tools. They are not on the class path of servers: their files would be, too. */
    private static List<String> tools() {
        return Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
            .filter(each -> each.matches(".*/hbase-(server|common)-[0-9][^/]*[.]jar"))
            .map(each -> each.substring(0, each.length() - ".jar".length()) + "-tests.jar")
            // The programs of HBase 2.5: those of 2.6 are in no library.
            .flatMap(each -> each.contains("hbase-server") ? Stream.of(each, each.replaceAll("hbase-server", "hbase-mapreduce")
                .replaceAll("2[.]6[.][0-9]+-hadoop3", "2.5.13-hadoop3")) : Stream.of(each)).toList();
    }

    static boolean hasTools() {
        return !tools().isEmpty() && tools().stream().allMatch(each -> Files.exists(Path.of(each)));
    }

    /** Runs a tool of HBase's own tests to its end: its exit status. */
    int tool(String name, Map<String, String> environment, String main, List<String> arguments) throws IOException {
        List<String> command = command(name, 768, main, arguments.toArray(String[]::new));
        int path = command.indexOf("-cp") + 1;
        command.set(path, command.get(path) + File.pathSeparator + String.join(File.pathSeparator, tools()));
        return run(name, environment, command);
    }

    private int run(String name, Map<String, String> environment, List<String> command) throws IOException {
        ProcessBuilder builder = process(name, command);
        builder.environment().putAll(environment);
        Process tool = builder.start();
        try {
            if (tool.waitFor(10, TimeUnit.MINUTES)) {
                return tool.exitValue();
            }
            throw new IOException(name + " has not ended:\n" + tail(name));
        } catch (InterruptedException stop) {
            throw new IOException(stop);
        } finally {
            tool.destroyForcibly();
        }
    }

    private void awaitPort(int port) throws IOException {
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(PATIENCE_MINUTES);
        while (true) {
            try {
                new Socket("127.0.0.1", port).close();
                return;
            } catch (IOException notYet) {
                check("a server at port " + port, end);
            }
        }
    }

    /** Fails if a program has ended that was not killed. */
    void runs() throws IOException {
        for (Map.Entry<String, Process> each : processes.entrySet()) {
            if (!each.getValue().isAlive() && each.getValue().exitValue() != 0) {
                throw new IOException(each.getKey() + " has ended:\n" + tail(each.getKey()));
            }
        }
    }

    /** Waits a little more. Fails if a program has died, or if it is too late. */
    private void check(String what, long end) throws IOException {
        runs();
        if (System.nanoTime() > end) {
            throw new IOException("not after " + PATIENCE_MINUTES + " minutes: " + what);
        }
        try {
            Thread.sleep(100);
        } catch (InterruptedException stop) {
            throw new IOException(stop);
        }
    }

    /** Waits until a server says something. */
    void await(String name, String text) throws IOException {
        await(name, text, text);
    }

    /** The same for a line that has both. */
    void await(String name, String text, String also) throws IOException {
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(PATIENCE_MINUTES);
        while (!says(name, text, also)) {
            check(name + " with the words \"" + text + "\" and \"" + also + "\"", end);
        }
    }

    private boolean says(String name, String text, String also) throws IOException {
        try (Stream<String> lines = Files.lines(log(name))) {
            return lines.anyMatch(line -> line.contains(text) && line.contains(also));
        }
    }

    /** Where the cluster's files are. */
    Path directory() {
        return directory;
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
        processes.values().forEach(Process::destroyForcibly);
        processes.values().forEach(process -> process.onExit().join());
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
