import java.io.*;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.MemberAssignmentImpl;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/**
 * Apache Kafka's assignors of streams and share groups as functions: a line in, a line out. Fields are separated by
 * tabs, rows by semicolons, columns by bars, and lists by commas; a task or partition is name:number.
 * streams, standbys, sub-topologies (id|tasks|stateful), members (id|process|active|standby): id|active|standby
 * share, topics (number|partitions), members (id|topics|current): id|partitions
 */
public class Assignors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, "UTF-8");
        for (String line; (line = in.readLine()) != null; ) {
            String[] f = line.split("\t", -1);
            out.println(f[0].equals("streams") ? streams(f[1], rows(f[2]), rows(f[3])) : share(rows(f[1]), rows(f[2])));
        }
        out.flush();
    }

    static List<String[]> rows(String text) {
        return Arrays.stream(text.split(";")).filter(row -> !row.isEmpty()).map(row -> row.split("\\|", -1)).toList();
    }

    static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> tasks = new LinkedHashMap<>();
        for (String task : text.split(",")) {
            if (task.isEmpty()) continue;
            String[] parts = task.split(":");
            tasks.computeIfAbsent(parts[0], name -> new LinkedHashSet<>()).add(Integer.valueOf(parts[1]));
        }
        return tasks;
    }

    static String text(Map<String, Set<Integer>> tasks) {
        return tasks.entrySet().stream()
                .flatMap(entry -> entry.getValue().stream().map(number -> entry.getKey() + ":" + number))
                .collect(Collectors.joining(","));
    }

    static String streams(String standbys, List<String[]> topology, List<String[]> rows) {
        Map<String, AssignmentMemberSpec> members = new LinkedHashMap<>();
        for (String[] row : rows)
            members.put(row[0], new AssignmentMemberSpec(Optional.empty(), Optional.empty(), tasks(row[2]), tasks(row[3]),
                    Map.of(), row[1], Map.of(), Map.of(), Map.of()));
        TopologyDescriber described = new TopologyDescriber() {
            String[] row(String id) { return topology.stream().filter(each -> each[0].equals(id)).findFirst().get(); }
            public List<String> subtopologies() { return topology.stream().map(row -> row[0]).toList(); }
            public int maxNumInputPartitions(String id) { return Integer.parseInt(row(id)[1]); }
            public boolean isStateful(String id) { return row(id)[2].equals("1"); }
        };
        var assigned = new StickyTaskAssignor()
                .assign(new GroupSpecImpl(members, Map.of("num.standby.replicas", standbys)), described).members();
        return assigned.entrySet().stream()
                .map(entry -> entry.getKey() + "|" + text(entry.getValue().activeTasks()) + "|" + text(entry.getValue().standbyTasks()))
                .collect(Collectors.joining(";"));
    }

    /** The hash tables of Kafka's assignor go through topics 0 to 3 of up to four partitions in this order. */
    static Uuid id(String number) { return new Uuid(0, 64 - 4 * Long.parseLong(number)); }

    static String number(Uuid id) { return String.valueOf((64 - id.getLeastSignificantBits()) / 4); }

    static String share(List<String[]> topics, List<String[]> rows) {
        Map<Uuid, Integer> counts = new LinkedHashMap<>();
        for (String[] row : topics) counts.put(id(row[0]), Integer.valueOf(row[1]));
        Map<String, Set<Uuid>> wanted = new LinkedHashMap<>();
        Map<String, Map<Uuid, Set<Integer>>> current = new LinkedHashMap<>();
        for (String[] row : rows) {
            Set<Uuid> ids = new LinkedHashSet<>();
            for (String topic : row[1].split(",")) if (!topic.isEmpty()) ids.add(id(topic));
            wanted.put(row[0], ids);
            Map<Uuid, Set<Integer>> had = new LinkedHashMap<>();
            tasks(row[2]).forEach((topic, numbers) -> had.put(id(topic), numbers));
            current.put(row[0], had);
        }
        GroupSpec spec = new GroupSpec() {
            public Collection<String> memberIds() { return wanted.keySet(); }
            public SubscriptionType subscriptionType() {
                return new HashSet<>(wanted.values()).size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
            }
            public boolean isPartitionAssigned(Uuid topic, int number) { return false; }
            public boolean isPartitionAssignable(Uuid topic, int number) { return true; }
            public MemberAssignment memberAssignment(String member) { return new MemberAssignmentImpl(current.get(member)); }
            public MemberSubscription memberSubscription(String member) {
                return new MemberSubscription() {
                    public Optional<String> rackId() { return Optional.empty(); }
                    public Optional<String> instanceId() { return Optional.empty(); }
                    public Set<Uuid> subscribedTopicIds() { return wanted.get(member); }
                };
            }
        };
        SubscribedTopicDescriber described = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) { return counts.getOrDefault(topic, -1); }
            public Set<String> racksForPartition(Uuid topic, int number) { return Set.of(); }
        };
        var assigned = new SimpleAssignor().assign(spec, described).members();
        return assigned.entrySet().stream().map(entry -> {
            Map<String, Set<Integer>> partitions = new TreeMap<>();
            entry.getValue().partitions().forEach((topic, numbers) -> partitions.put(number(topic), numbers));
            return entry.getKey() + "|" + text(partitions);
        }).collect(Collectors.joining(";"));
    }
}
