package org.apache.kafka.streams.integration.utils;

import java.io.*;
import java.net.ServerSocket;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.util.MockTime;
import org.apache.kafka.test.TestUtils;

/** Ottla in the place of the brokers that Kafka's tests start inside their own process. */
public class EmbeddedKafkaCluster {
    private final Properties settings = new Properties();
    private Process broker;
    private final int brokers;
    private String bootstrap;
    private Path folder;
    public final MockTime time;

    public EmbeddedKafkaCluster(int brokers) { this(brokers, new Properties()); }

    public EmbeddedKafkaCluster(int brokers, Properties settings) {
        this(brokers, settings, Collections.emptyMap(), System.currentTimeMillis(), System.nanoTime());
    }

    public EmbeddedKafkaCluster(int brokers, Properties settings, long millis) {
        this(brokers, settings, Collections.emptyMap(), millis, System.nanoTime());
    }

    public EmbeddedKafkaCluster(int brokers, Properties settings, Map<Integer, Map<String, String>> overrides) {
        this(brokers, settings, overrides, System.currentTimeMillis(), System.nanoTime());
    }

    public EmbeddedKafkaCluster(
            int brokers, Properties settings, Map<Integer, Map<String, String>> overrides, long millis, long nanos) {
        this.brokers = brokers;
        this.settings.putAll(settings);
        overrides.getOrDefault(0, Map.of()).forEach(this.settings::put);
        time = new MockTime(millis, nanos);
    }

    public void start() {
        try {
            folder = Files.createTempDirectory("ottla-streams");
            Map<String, String> all = new TreeMap<>(Map.of("offsets.topic.num.partitions", "5",
                    "transaction.state.log.num.partitions", "5", "group.initial.rebalance.delay.ms", "0",
                    "group.streams.initial.rebalance.delay.ms", "0", "auto.create.topics.enable", "true",
                    "group.min.session.timeout.ms", "100",
                    "group.streams.min.session.timeout.ms", "100", "group.streams.min.heartbeat.interval.ms", "100"));
            settings.forEach((name, value) -> all.put(name.toString(), value.toString()));
            if (brokers == 1) startOne(all); else startSeveral(all);
            if (brokers == 1) Runtime.getRuntime().addShutdownHook(new Thread(() -> broker.destroyForcibly()));
            verifyClusterReadiness();
        } catch (IOException error) { throw new UncheckedIOException(error); }
    }

    private void startOne(Map<String, String> all) throws IOException {
        int port;
        try (ServerSocket socket = new ServerSocket(0)) { port = socket.getLocalPort(); }
        List<String> command = new ArrayList<>(List.of(System.getProperty("ottla.python"), "-m", "ottla.cli.main", "start",
                "--host", "127.0.0.1", "--port", "" + port, "--data", folder.toString()));
        all.forEach((name, value) -> { command.add("--set"); command.add(name + "=" + value); });
        broker = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(new File(folder + ".log")).start();
        bootstrap = "127.0.0.1:" + port;
    }

    private void startSeveral(Map<String, String> all) throws IOException {
        List<String> command = new ArrayList<>(
                List.of(System.getProperty("ottla.python"), "-m", "tests.oracle.suite_brokers", "" + brokers));
        all.forEach((name, value) -> command.add(name + "=" + value));
        broker = new ProcessBuilder(command).directory(new File(System.getProperty("ottla.project")))
                .redirectError(new File(folder + ".log")).start();
        bootstrap = new BufferedReader(new InputStreamReader(broker.getInputStream())).readLine();
    }

    public void verifyClusterReadiness() {
        try (Admin admin = createAdminClient()) { admin.describeCluster().nodes().get(); }
        catch (InterruptedException | ExecutionException error) { throw new RuntimeException(error); }
    }

    public void stop() {
        try {
            if (brokers == 1) broker.destroyForcibly(); else broker.getOutputStream().close(); // its brokers end with it
            broker.waitFor();
            Utils.delete(folder.toFile());
        } catch (Exception error) { throw new RuntimeException(error); }
    }

    public String bootstrapServers() { return bootstrap; }
    public boolean sslEnabled() { return false; }

    public void createTopics(String... topics) throws InterruptedException {
        for (String topic : topics) createTopic(topic, 1, 1, Map.of());
    }
    public void createTopic(String topic) { createTopic(topic, 1); }
    public void createTopic(String topic, int partitions) { createTopic(topic, partitions, 1, Map.of()); }
    public void createTopic(String topic, int partitions, int replication) throws InterruptedException {
        createTopic(topic, partitions, replication, Map.of());
    }
    public void createTopic(String topic, int partitions, int replication, Map<String, String> configs) {
        NewTopic wanted = new NewTopic(topic, partitions, (short) replication).configs(configs);
        try (Admin admin = createAdminClient()) { admin.createTopics(List.of(wanted)).all().get(); }
        catch (InterruptedException | ExecutionException error) { throw new RuntimeException(error); }
    }
    public void deleteTopics(String... topics) { for (String topic : topics) deleteTopic(topic); }
    public void deleteTopic(String topic) {
        try (Admin admin = createAdminClient()) { admin.deleteTopics(List.of(topic)).all().get(); }
        catch (InterruptedException | ExecutionException error) {
            if (!(error.getCause() instanceof UnknownTopicOrPartitionException)) throw new RuntimeException(error);
        }
    }
    public void deleteAllTopics() { deleteTopics(getAllTopicsInCluster().toArray(new String[0])); }

    public void produce(Map<String, Object> more, String topic, Integer partition, String key, String value) {
        Map<String, Object> all = new HashMap<>(more);
        all.putIfAbsent("bootstrap.servers", bootstrapServers());
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>(topic, partition, key == null ? null : key.getBytes(), value == null ? null : value.getBytes()));
            producer.flush();
        }
    }
    public Admin createAdminClient() { return Admin.create(Map.of("bootstrap.servers", bootstrapServers())); }
    public Map<String, String> clientDefaultConfig() {
        return Map.of("bootstrap.servers", bootstrapServers(), "group.id", "group", "auto.offset.reset", "earliest");
    }
    public KafkaConsumer<byte[], byte[]> createConsumer(Map<String, Object> more) {
        Map<String, Object> all = new HashMap<>(clientDefaultConfig());
        all.putAll(more);
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
    public KafkaConsumer<byte[], byte[]> createConsumerAndSubscribeTo(Map<String, Object> more, String... topics) {
        return createConsumerAndSubscribeTo(more, null, topics);
    }
    public KafkaConsumer<byte[], byte[]> createConsumerAndSubscribeTo(
            Map<String, Object> more, ConsumerRebalanceListener listener, String... topics) {
        KafkaConsumer<byte[], byte[]> consumer = createConsumer(more);
        if (listener == null) consumer.subscribe(Arrays.asList(topics)); else consumer.subscribe(Arrays.asList(topics), listener);
        return consumer;
    }
    public void waitForRemainingTopics(long timeoutMs, String... topics) throws InterruptedException {
        Set<String> wanted = Set.of(topics);
        TestUtils.waitForCondition(() -> getAllTopicsInCluster().equals(wanted), timeoutMs, "other topics");
    }
    public Set<String> getAllTopicsInCluster() {
        try (Admin admin = createAdminClient()) {
            Set<String> names = admin.listTopics(new ListTopicsOptions().listInternal(false)).names().get();
            return names;
        } catch (InterruptedException | ExecutionException error) { throw new RuntimeException(error); }
    }
    public Properties getLogConfig(String topic) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Properties found = new Properties();
        try (Admin admin = createAdminClient()) {
            for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries())
                if (entry.value() != null) found.put(entry.name(), entry.value());
        } catch (InterruptedException | ExecutionException error) { throw new RuntimeException(error); }
        return found;
    }
    private void set(String group, String name, int value) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        AlterConfigOp op = new AlterConfigOp(new ConfigEntry(name, "" + value), AlterConfigOp.OpType.SET);
        try (Admin admin = createAdminClient()) { admin.incrementalAlterConfigs(Map.of(resource, List.of(op))).all().get(); }
        catch (InterruptedException | ExecutionException error) { throw new RuntimeException(error); }
    }
    public void setGroupSessionTimeout(String group, int ms) { set(group, "streams.session.timeout.ms", ms); }
    public void setGroupHeartbeatTimeout(String group, int ms) { set(group, "streams.heartbeat.interval.ms", ms); }
    public void setGroupStandbyReplicas(String group, int count) { set(group, "streams.num.standby.replicas", count); }
    public void setGroupStreamsInitialRebalanceDelay(String group, int ms) { set(group, "streams.initial.rebalance.delay.ms", ms); }
}
