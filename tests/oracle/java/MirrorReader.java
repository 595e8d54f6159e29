import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** What Apache Kafka's own MirrorClient and RemoteClusterUtils say about a target: bootstrap, source alias, group. */
public final class MirrorReader {
    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", args[0]);
        try (MirrorClient client = new MirrorClient(settings)) {
            System.out.println("heartbeats " + new TreeSet<>(client.heartbeatTopics()));
            System.out.println("checkpoints " + new TreeSet<>(client.checkpointTopics()));
            System.out.println("upstream " + new TreeSet<>(client.upstreamClusters()));
            System.out.println("remote " + new TreeSet<>(client.remoteTopics(args[1])));
            System.out.println("hops " + client.replicationHops(args[1]));
        }
        Map<String, String> offsets = new TreeMap<>();
        for (Map.Entry<TopicPartition, OffsetAndMetadata> each :
                RemoteClusterUtils.translateOffsets(settings, args[1], args[2], Duration.ofSeconds(20)).entrySet()) {
            offsets.put(each.getKey().toString(), each.getValue().offset() + " " + each.getValue().metadata());
        }
        System.out.println("offsets " + offsets);
    }
}
