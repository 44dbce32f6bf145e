package headworks.record;

import static net.bytebuddy.matcher.ElementMatchers.isAbstract;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.namedOneOf;
import static net.bytebuddy.matcher.ElementMatchers.none;
import static net.bytebuddy.matcher.ElementMatchers.not;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.concurrent.ThreadPoolExecutor;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.agent.builder.ResettableClassFileTransformer;
import net.bytebuddy.asm.Advice;

/** Has the class library call Handovers for some time. Loaded anew for each recording. */
public final class Counting {
    private Counting() {}

    /** Counts for so long, and tells the file. */
    public static void count(Instrumentation machine, long millis, Path file) {
        ResettableClassFileTransformer advised = null;
        try {
            advised = advise(machine);
            Handovers.start();
            Thread.sleep(millis);
        } catch (InterruptedException ended) {
            // What was counted until now is told.
        } finally {
            String told = Handovers.stop();
            boolean left = advised == null
                    || advised.reset(machine, AgentBuilder.RedefinitionStrategy.RETRANSFORMATION);
            tell(file, told + "left\t\t\t" + (left ? 1 : 0) + "\n");
        }
    }

    private static void tell(Path file, String text) {
        try {
            // A reader finds the file whole, or not at all.
            Path part = file.resolveSibling(file.getFileName() + ".part");
            Files.write(part, text.getBytes(StandardCharsets.UTF_8));
            Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException full) {
            System.err.println("headworks: cannot write " + file + ": " + full);
        }
    }

    private static ResettableClassFileTransformer advise(Instrumentation machine) {
        return new AgentBuilder.Default()
                .disableClassFormatChanges()
                .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
                .with(AgentBuilder.TypeStrategy.Default.REDEFINE)
                .with(AgentBuilder.InitializationStrategy.NoOp.INSTANCE)
                .ignore(none())
                .type(named(ThreadPoolExecutor.class.getName()))
                .transform((builder, type, loader, module, domain) -> builder
                        .visit(Advice.to(Execute.class).on(named("execute").and(takesArguments(1))))
                        .visit(Advice.to(Before.class).on(named("beforeExecute")))
                        .visit(Advice.to(After.class).on(named("afterExecute"))))
                .type(namedOneOf("java.util.concurrent.LinkedBlockingQueue",
                        "java.util.concurrent.ArrayBlockingQueue",
                        "java.util.concurrent.LinkedBlockingDeque",
                        "java.util.concurrent.LinkedTransferQueue",
                        "java.util.concurrent.PriorityBlockingQueue"))
                .transform((builder, type, loader, module, domain) -> builder
                        .visit(Advice.to(Put.class).on(named("put").and(takesArguments(1)).and(not(isAbstract()))))
                        .visit(Advice.to(Offer.class).on(named("offer").and(takesArgument(0, Object.class))))
                        .visit(Advice.to(Take.class).on(namedOneOf("take", "poll"))))
                .type(named("java.lang.VirtualThread"))
                .transform((builder, type, loader, module, domain) -> builder
                        .visit(Advice.to(Start.class).on(named("start").and(takesArguments(1))))
                        .visit(Advice.to(Run.class).on(named("run").and(takesArguments(1)))))
                .installOn(machine);
    }

    /** A task goes to a pool. */
    static final class Execute {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(0) Object task) {
            Handovers.give(task, "pool");
        }
    }

    /** A pool's thread takes a task. */
    static final class Before {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(1) Object task) {
            Handovers.take(task);
        }
    }

    /** It is done. */
    static final class After {
        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit() {
            Handovers.done();
        }
    }

    /** Something goes into a queue. */
    static final class Put {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(0) Object thing) {
            if (!(thing instanceof Runnable)) {
                Handovers.give(thing, "queue");
            }
        }
    }

    /** Something goes into a queue if there is room. A pool's own queue passes tasks on. */
    static final class Offer {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(0) Object thing) {
            if (!(thing instanceof Runnable)) {
                Handovers.give(thing, "queue");
            }
        }

        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit(@Advice.Argument(0) Object thing, @Advice.Return boolean done) {
            if (!done && !(thing instanceof Runnable)) {
                Handovers.back(thing);
            }
        }
    }

    /** Something comes out of a queue. */
    static final class Take {
        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit(@Advice.Return Object thing) {
            if (!(thing instanceof Runnable)) {
                Handovers.take(thing);
            }
        }
    }

    /** A virtual thread is started: it is the thing that is handed over. */
    static final class Start {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object thread) {
            Handovers.give(thread, "virtual thread");
        }
    }

    /** It runs. */
    static final class Run {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object thread) {
            Handovers.take(thread);
        }
    }
}
