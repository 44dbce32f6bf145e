package headworks.fair;

import java.lang.management.ManagementFactory;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import javax.management.JMException;
import javax.management.ObjectName;

/** What a server says of its scheduler by JMX. HBase and Hadoop show that at {@code /jmx} of their own pages. */
public final class Status implements StatusMBean {
    /** Grows with each change of what the agent and the plug-in do. */
    public static final int VERSION = 4;
    /** Of an agent that says none. */
    private static final int BEFORE = 3;
    private static final String NAME = "headworks:type=Scheduler";
    private static final int MOST_TENANTS = 100;
    /** A property of the virtual machine, which {@code jcmd} shows: {@code headworks tad record} reads it. */
    private static final String STAGES = "headworks.stages";

    /** Both jars have these classes, and the first on the class path counts. So each says its own version; 0: it is not there. */
    private static volatile int agent;
    private static volatile int plugin;
    private static final Set<String> LACKS = new ConcurrentSkipListSet<>();
    private static volatile String settings = "";

    /** Registers it, once. A server without JMX goes on. */
    public static synchronized void publish() {
        try {
            var beans = ManagementFactory.getPlatformMBeanServer();
            ObjectName name = new ObjectName(NAME);
            if (!beans.isRegistered(name)) {
                beans.registerMBean(new Status(), name);
                Scheduler.here().figures().hears(text -> System.setProperty(STAGES, text));
            }
        } catch (JMException | RuntimeException failed) {
            System.err.println("headworks: no figures by JMX: " + failed);
        }
    }

    /** An agent is installed that does not say its version. */
    public static void agentIsThere() {
        agentIsThere(BEFORE);
    }

    /** The agent is installed. */
    public static void agentIsThere(int version) {
        agent = version;
    }

    /** The plug-in is in use. */
    public static void pluginIsThere(int version) {
        plugin = version;
    }

    /** Something that the agent changes is not as it expects, in words. */
    public static void lacks(String words) {
        LACKS.add(words);
    }

    /** The version of these classes, as they were loaded: a constant is copied into those that use it. */
    public static int loaded() {
        return new Status().getVersion();
    }

    /** What the configuration says, in words. */
    public static void say(String words) {
        settings = words;
    }

    @Override
    public int getVersion() {
        return VERSION;
    }

    @Override
    public boolean isAgent() {
        return agent > 0;
    }

    @Override
    public int getAgentVersion() {
        return agent;
    }

    @Override
    public int getPluginVersion() {
        return plugin;
    }

    @Override
    public String getLacks() {
        return String.join("\n", LACKS);
    }

    @Override
    public boolean isSeveral() {
        return Scheduler.here().several();
    }

    @Override
    public String getSettings() {
        return settings;
    }

    @Override
    public String getStages() {
        return Scheduler.here().figures().stages();
    }

    @Override
    public String getController() {
        return Controller.state();
    }

    @Override
    public String getAttempts() {
        return Scheduler.here().figures().attempts();
    }

    @Override
    public String getTenants() {
        return Scheduler.here().figures().tenants(MOST_TENANTS);
    }
}
