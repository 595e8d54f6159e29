import java.io.*;
import java.net.InetAddress;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.metadata.authorizer.*;
import org.apache.kafka.server.authorizer.*;

/**
 * Apache Kafka's StandardAuthorizer as a function. Lines, with fields between tabs:
 * R supers allowEveryone; A type name pattern principal host operation permission; S (all rules are there);
 * Q principal host operation type name; T principal host operation type. Q and T are answered with 1 or 0.
 */
public class Acls {
    record Client(KafkaPrincipal principal, InetAddress address) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public InetAddress clientAddress() { return address; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "c"; }
        public int correlationId() { return 0; }
    }

    static Client client(String principal, String host) throws Exception {
        String[] parts = principal.split(":", 2);
        return new Client(new KafkaPrincipal(parts[0], parts[1]), InetAddress.getByName(host));
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, "UTF-8");
        StandardAuthorizer authorizer = null;
        Map<Uuid, StandardAcl> rules = new HashMap<>();
        for (String line; (line = in.readLine()) != null; ) {
            String[] f = line.split("\t", -1);
            switch (f[0]) {
                case "R" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.configure(Map.of("super.users", f[1], "allow.everyone.if.no.acl.found", f[2], "node.id", "1"));
                    rules = new HashMap<>();
                }
                case "A" -> rules.put(new Uuid(1, rules.size() + 1), new StandardAcl(
                        ResourceType.fromString(f[1]), f[2], PatternType.fromString(f[3]), f[4], f[5],
                        AclOperation.fromString(f[6]), AclPermissionType.fromString(f[7])));
                case "S" -> { authorizer.loadSnapshot(rules); authorizer.completeInitialLoad(); }
                case "Q" -> {
                    Action action = new Action(AclOperation.fromString(f[3]),
                            new ResourcePattern(ResourceType.fromString(f[4]), f[5], PatternType.LITERAL), 1, true, true);
                    out.println(authorizer.authorize(client(f[1], f[2]), List.of(action)).get(0) == AuthorizationResult.ALLOWED ? 1 : 0);
                }
                case "T" -> out.println(authorizer.authorizeByResourceType(client(f[1], f[2]),
                        AclOperation.fromString(f[3]), ResourceType.fromString(f[4])) == AuthorizationResult.ALLOWED ? 1 : 0);
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }
}
