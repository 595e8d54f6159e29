import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Prints each setting of Kafka's clients: client, name and default, with tabs between ("?" for none); and as those of
 * "share" the consumer's settings that a share consumer refuses. */
public class ClientSettings {
    public static void main(String[] args) throws ReflectiveOperationException {
        print("producer", ProducerConfig.configDef());
        print("consumer", ConsumerConfig.configDef());
        print("admin", AdminClientConfig.configDef());
        var share = Class.forName("org.apache.kafka.clients.consumer.ShareConsumerConfig");
        var refused = share.getDeclaredField("SHARE_GROUP_UNSUPPORTED_CONFIGS");
        refused.setAccessible(true);
        for (Object name : (java.util.List<?>) refused.get(null)) System.out.println("share\t" + name + "\t?");
    }

    private static void print(String client, ConfigDef settings) {
        for (var setting : new TreeMap<>(settings.configKeys()).values()) {
            Object value = setting.hasDefault() ? setting.defaultValue : "?";
            String text = value instanceof Class<?> named ? named.getName() : value == null ? "" : value.toString();
            text = value instanceof java.util.List<?> ? text.substring(1, text.length() - 1).replace(", ", ",") : text;
            System.out.println(client + "\t" + setting.name + "\t" + text);
        }
    }
}
