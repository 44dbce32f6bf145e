package org.apache.hadoop.hbase.ipc;

import headworks.fair.Here;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos;

/** A get that is tried without files: what that needs of classes of this package. */
public final class HeadworksAttempt {
    private static final Field SERVER;

    static {
        try {
            SERVER = CallRunner.class.getDeclaredField("rpcServer");
            SERVER.setAccessible(true);
        } catch (ReflectiveOperationException otherVersion) {
            throw new ExceptionInInitializerError(otherVersion);
        }
    }

    private HeadworksAttempt() {}

    /** The call is no get. */
    public static final int NO_GET = 0;

    /** A number for the region of which the call reads one row; {@link #NO_GET} if it does anything else. */
    public static int region(CallRunner runner) {
        RpcCall call = runner.getRpcCall();
        return call != null && call.getParam() instanceof ClientProtos.GetRequest get ? get.getRegion().getValue().hashCode() | 1 : NO_GET;
    }

    /** Tries the call. {@code false}: it needs a file, and was neither answered nor changed. */
    public static boolean run(CallRunner runner) {
        RpcCall call = runner.getRpcCall();
        RpcServerInterface server;
        try {
            server = (RpcServerInterface) SERVER.get(runner);
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
        Object proxy = Proxy.newProxyInstance(RpcCall.class.getClassLoader(), new Class<?>[] {RpcCall.class}, new Quiet(call));
        CallRunner trial = new CallRunner(server, (RpcCall) proxy);
        trial.setStatus(RpcServer.getStatus());
        Here.attempt();
        try {
            trial.run();
            if (Here.ended()) {
                return false;
            }
            // The runner that was queued never runs: it gives back what it holds of the server's memory.
            server.addCallSize(-call.getSize());
            return true;
        } finally {
            Here.forget();
        }
    }

    /** The call. Once the attempt has ended, it gives no answer and keeps its request. */
    private record Quiet(RpcCall call) implements InvocationHandler {
        @Override
        public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
            boolean last = switch (method.getName()) {
                case "setResponse", "sendResponseIfReady", "cleanup" -> true;
                default -> false;
            };
            if (last && Here.ended()) {
                return null;
            }
            try {
                return method.invoke(call, arguments);
            } catch (InvocationTargetException failed) {
                throw failed.getCause();
            }
        }
    }
}
