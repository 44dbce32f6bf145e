package headworks.fair;

/** See {@link Status}. */
public interface StatusMBean {
    /** Of plug-in and agent. */
    int getVersion();

    /** Whether the agent is there. */
    boolean isAgent();

    /** Of the agent's own jar; 0: there is none. */
    int getAgentVersion();

    /** Of the plug-in's own jar; 0: there is none. */
    int getPluginVersion();

    /** What the agent could not change, a line each. */
    String getLacks();

    /** Whether several tenants were seen: until then nothing is ordered. */
    boolean isSeveral();

    /** What the configuration says. */
    String getSettings();

    /** Stages, as JSON. */
    String getStages();

    /** How it stands with the controller. */
    String getController();

    /** Gets that were tried without a handler, as JSON. */
    String getAttempts();

    /** The busiest tenants, as JSON. */
    String getTenants();
}
