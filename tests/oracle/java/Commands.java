// Runs commands of Apache Kafka's tools one after the other in one JVM, each with its own standard input.
// A command comes as a line of CLASS, what it reads, and its words, in Base64; the answer is a line of its exit status,
// what it printed and what it said besides.
//   java Commands

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

public final class Commands {
    static final class Exited extends Error {
    }

    static Integer status;
    static final List<Runnable> hooks = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] given = Arrays.stream(line.split(" ", -1)).map(Commands::decoded).toArray(String[]::new);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(given[1].getBytes("UTF-8")));
            System.setOut(new PrintStream(out, true));
            System.setErr(new PrintStream(err, true));
            int code = run(given[0], Arrays.copyOfRange(given, 2, given.length));
            hooks.forEach(Runnable::run);  // the console producer flushes in one
            hooks.clear();
            answers.println(code + " " + encoded(out) + " " + encoded(err));
        }
    }

    static int run(String name, String[] words) throws Exception {
        status = null;
        Class<?> tool = Class.forName(name);
        forget(tool, "messageCount");
        try {
            tool.getMethod("main", String[].class).invoke(null, (Object) words);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Exited)) {
                error.getCause().printStackTrace();
                return 1;
            }
        }
        return status == null ? 0 : status;
    }

    /** The first one counts: a tool may catch what ends it here, and go on to say that it failed. */
    static void exit(int code) {
        if (status == null) {
            status = code;
        }
        throw new Exited();
    }

    /** The console consumer counts for its whole life; here that is one command. */
    static void forget(Class<?> tool, String name) throws Exception {
        try {
            Field counter = tool.getDeclaredField(name);
            counter.setAccessible(true);
            counter.setInt(null, 0);
        } catch (NoSuchFieldException ignored) {
        }
    }

    static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text));
    }

    static String encoded(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
