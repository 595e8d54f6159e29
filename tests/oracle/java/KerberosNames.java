import java.io.*;
import java.util.Arrays;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/** Lines "rules TAB principal": the user's name that Kafka makes of it in the realm CARE.TEST, or "-". */
public class KerberosNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, "UTF-8");
        for (String line; (line = in.readLine()) != null; ) {
            String[] f = line.split("\t", -1);
            String name;
            try {
                KerberosShortNamer rules = KerberosShortNamer.fromUnparsedRules(
                        "CARE.TEST", Arrays.asList(f[0].split("\\s*,\\s*", -1)));
                name = rules.shortName(KerberosName.parse(f[1]));
            } catch (Exception e) {
                name = "-";
            }
            out.println(name);
        }
        out.flush();
    }
}
