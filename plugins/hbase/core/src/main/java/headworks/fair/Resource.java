package headworks.fair;

/** What requests use. A cost is the time for which all of the resource would be busy. */
public enum Resource {
    /** Threads that handle calls: a call holds one also while it waits for the DataNode. */
    HANDLERS("handlers"),
    CPU("processors"),
    NETWORK("network"),
    DISK("disk"),
    /** Places below the ordered log. */
    LOG("log");

    public static final int COUNT = values().length;

    /** The name in figures. */
    final String words;

    Resource(String words) {
        this.words = words;
    }
}
