package headworks.fair;

/** What requests use. A cost is the time for which all of the resource would be busy. */
public enum Resource {
    /** Threads that handle calls: a call holds one also while it waits for the DataNode. */
    HANDLERS,
    CPU,
    NETWORK,
    DISK,
    /** Places below the ordered log. */
    LOG;

    public static final int COUNT = values().length;
}
