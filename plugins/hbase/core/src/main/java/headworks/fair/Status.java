package headworks.fair;

import java.lang.management.ManagementFactory;
import javax.management.JMException;
import javax.management.ObjectName;

/** What a server says of its scheduler by JMX. HBase and Hadoop show that at {@code /jmx} of their own pages. */
public final class Status implements StatusMBean {
    /** Grows with each change of what the agent and the plug-in do. */
    public static final int VERSION = 3;
    private static final String NAME = "headworks:type=Scheduler";
    private static final int MOST_TENANTS = 100;
    /** A property of the virtual machine, which {@code jcmd} shows: {@code headworks tad record} reads it. */
    private static final String STAGES = "headworks.stages";

    private static volatile boolean agent;
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

    /** The agent is installed. */
    public static void agentIsThere() {
        agent = true;
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
        return agent;
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
