package headworks.fair;

/** The upper level of nested shares: clients' work before the server's housekeeping, whatever a tenant's weight. */
public enum Tier {
    /** Requests of clients. */
    USERS(20 * Fair.WEIGHT_ONE),
    /** Compaction, replication and bulk load: what clients leave, and a twentieth at least, so that it never starves. */
    BACKGROUND(Fair.WEIGHT_ONE);

    final int weight;

    /** Names of work that has no client, as they travel to the DataNode. */
    public static final String COMPACTION = "(compaction)";
    public static final String REPLICATION = "(replication)";
    public static final String FLUSH = "(flush)";
    public static final String LOG = "(log)";

    /** The tier of a name: compaction and replication are housekeeping. */
    public static Tier of(String name) {
        return COMPACTION.equals(name) || REPLICATION.equals(name) ? BACKGROUND : USERS;
    }

    Tier(int weight) {
        this.weight = weight;
    }
}
