// Runs several commands of one of Apache Kafka's tools in one JVM, a line of arguments each, and prints a mark
// after what each of them prints.
//   java Tools CLASS MARK

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.kafka.common.utils.Exit;

public final class Tools {
    static final class Exited extends RuntimeException {
    }

    public static void main(String[] args) throws Exception {
        System.setErr(System.out);
        Exit.setExitProcedure((status, message) -> {
            throw new Exited();
        });
        Exit.setHaltProcedure((status, message) -> {
            throw new Exited();
        });
        Method tool = Class.forName(args[0]).getMethod("main", String[].class);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            try {
                tool.invoke(null, (Object) line.split(" "));
            } catch (InvocationTargetException error) {
                if (!(error.getCause() instanceof Exited)) {
                    System.out.println(error.getCause());
                }
            }
            System.out.println(args[1]);
        }
    }
}
