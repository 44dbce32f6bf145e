package headworks.fair;

/** The upper level of nested shares: clients' work before the server's housekeeping, whatever a tenant's weight. */
public enum Tier {
    /** Requests of clients. */
    USERS(20 * Fair.WEIGHT_ONE),
    /** Compaction, replication and bulk load: what clients leave, and a twentieth at least, so that it never starves. */
    BACKGROUND(Fair.WEIGHT_ONE);

    final int weight;

    Tier(int weight) {
        this.weight = weight;
    }
}
