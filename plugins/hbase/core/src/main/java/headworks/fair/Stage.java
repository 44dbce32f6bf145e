package headworks.fair;

/** Where requests are ordered. The first five are in a region server, the last one is in a DataNode. */
public enum Stage {
    /** A connection of the classic server has bytes to be read. */
    READ("RPC Read"),
    /** A call waits for a handler. */
    HANDLE("RPC Handle"),
    /** A response waits for the network. */
    RESPOND("RPC Respond"),
    /** A write waits for its place below the ordered log. */
    LOG("Log append"),
    /** A packet for a DataNode waits for the network. */
    STREAM("Data Stream"),
    /** A packet waits for the DataNode's disk. */
    XCEIVE("Data Xceiver");

    public static final int COUNT = values().length;

    /** The name in figures and messages. */
    public final String words;

    Stage(String words) {
        this.words = words;
    }
}
