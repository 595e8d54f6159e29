import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;

/** Of groups, or with the word share of share states: reads "key value" in hex, line by line (value "-" for a tombstone); prints it as Apache Kafka reads and writes it. */
public class RoundTrip {
    public static void main(String[] args) {
        HexFormat hex = HexFormat.of();
        CoordinatorRecordSerde serde = args[0].equals("share") ? new ShareCoordinatorRecordSerde() : new GroupCoordinatorRecordSerde();
        Scanner in = new Scanner(System.in);
        while (in.hasNext()) {
            ByteBuffer key = ByteBuffer.wrap(hex.parseHex(in.next()));
            String text = in.next();
            ByteBuffer value = text.equals("-") ? null : ByteBuffer.wrap(hex.parseHex(text));
            CoordinatorRecord record = serde.deserialize(key, value);
            byte[] written = record.value() == null ? null : serde.serializeValue(record);
            System.out.println(hex.formatHex(serde.serializeKey(record)) + " "
                + (written == null ? "-" : hex.formatHex(written)));
        }
    }
}
