package org.apache.kafka.common.test.junit;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import java.util.stream.Collectors;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.junit.jupiter.api.extension.*;
import org.opentest4j.TestAbortedException;

/** Ottla in the place of the brokers that Kafka's tests start inside their own process. What a test can only learn by
 * looking into such a broker, it does not learn here: it is skipped. */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String name;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean isCombined) {
        this.name = name;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override public String getDisplayName(int index) { return name + " [" + index + "]"; }

    @Override public List<Extension> getAdditionalExtensions() {
        Cluster cluster = new Cluster();
        return List.of(
            (BeforeEachCallback) context -> { if (config.isAutoStart()) cluster.start(); },
            (AfterTestExecutionCallback) context -> cluster.stop(),
            new ClusterInstanceParameterResolver(cluster));
    }

    private class Cluster implements ClusterInstance {
        private Process broker;
        private Path folder;
        private int port;

        @Override public void start() {
            if (isCombined) throw new TestAbortedException("the same again, with another controller");
            if (config.numBrokers() > 1) throw new TestAbortedException("wants several brokers");
            try {
                try (ServerSocket socket = new ServerSocket(0)) { port = socket.getLocalPort(); }
                folder = Files.createTempDirectory("ottla-security");
                List<String> command = new ArrayList<>(List.of(System.getProperty("ottla.python"), "-m", "ottla.cli.main",
                    "start", "--host", "127.0.0.1", "--port", "" + port, "--data", folder.toString(),
                    "--set", "node.id=0", "--set", "group.initial.rebalance.delay.ms=0"));
                config.serverProperties().forEach((key, value) -> { command.add("--set"); command.add(key + "=" + value); });
                broker = new ProcessBuilder(command).redirectErrorStream(true)
                    .redirectOutput(new File(folder + ".log")).start();
                Process mine = broker;
                Runtime.getRuntime().addShutdownHook(new Thread(mine::destroyForcibly));
                try (Admin admin = admin()) { admin.describeCluster().nodes().get(); }
            } catch (Exception error) { throw new RuntimeException(error); }
        }

        @Override public void stop() {
            if (broker == null) return;
            broker.destroyForcibly();
            try { broker.waitFor(); Utils.delete(folder.toFile()); } catch (InterruptedException | IOException error) { throw new RuntimeException(error); }
        }

        @Override public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> wanted) throws InterruptedException {
            Set<AccessControlEntry> found = Set.of();
            for (int i = 0; i < 150; i++) {
                try (Admin admin = admin()) {
                    found = admin.describeAcls(filter).values().get().stream().map(AclBinding::entry).collect(Collectors.toSet());
                } catch (java.util.concurrent.ExecutionException error) { throw new RuntimeException(error); }
                if (found.equals(new HashSet<>(wanted))) return;
                Thread.sleep(100);
            }
            throw new AssertionError("expected " + wanted + ", found " + found);
        }

        @Override public Type type() { return isCombined ? Type.CO_KRAFT : Type.KRAFT; }
        @Override public ClusterConfig config() { return config; }
        @Override public String bootstrapServers() { return "127.0.0.1:" + port; }
        @Override public ListenerName clientListener() { return new ListenerName("PLAINTEXT"); }
        @Override public boolean started() { return broker != null; }
        @Override public boolean stopped() { return broker == null || !broker.isAlive(); }
        @Override public void waitForReadyBrokers() { }
        @Override public void ensureConsistentMetadata() { }
        @Override public void waitTopicCreation(String topic, int partitions) { }
        @Override public Optional<FaultHandlerException> firstFatalException() { return Optional.empty(); }
        @Override public Optional<FaultHandlerException> firstNonFatalException() { return Optional.empty(); }
        @Override public Set<Integer> controllerIds() { return Set.of(0); }
        @Override public Set<Integer> brokerIds() { return Set.of(0); }
        @Override public Map<Integer, KafkaBroker> brokers() { throw inside(); }
        @Override public Map<Integer, ControllerServer> controllers() { throw inside(); }
        @Override public ListenerName controllerListenerName() { throw inside(); }
        @Override public String bootstrapControllers() { throw inside(); }
        @Override public String clusterId() { throw inside(); }
        @Override public void shutdownBroker(int id) { throw inside(); }
        @Override public void startBroker(int id) { throw inside(); }

        private TestAbortedException inside() { return new TestAbortedException("looks into Kafka's own broker or controller"); }
    }
}
