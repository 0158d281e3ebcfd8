// MirrorMaker 2's internal records and Connect's offsets, from the classes that write and read them.
// One case a line; words are x<hex>, texts in UTF-8.
//
//   in   heartbeat  source target timestamp                      out  key  value  Connect's key
//   in   checkpoint group topic partition up down metadata       out  key  value  Connect's key
//   in   sync       topic partition up down                      out  key  value
//   in   position   connector cluster topic partition offset     out  Connect's key  Connect's value
//   in   read       heartbeat|checkpoint|sync  key value         out  what the console formatter prints, or "refused"
//   in   partition  key partitions                               out  murmur2  partition
//
// The connector's name in the keys of heartbeats and checkpoints is "c".

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.types.SchemaException;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.MirrorUtils;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.mirror.formatters.CheckpointFormatter;
import org.apache.kafka.connect.mirror.formatters.HeartbeatFormatter;
import org.apache.kafka.connect.mirror.formatters.OffsetSyncFormatter;

public class RecordsProbe {
    static final JsonConverter JSON = new JsonConverter();

    static final Map<String, MessageFormatter> FORMATTERS = Map.of(
        "heartbeat", new HeartbeatFormatter(),
        "checkpoint", new CheckpointFormatter(),
        "sync", new OffsetSyncFormatter());

    public static void main(String[] arguments) throws Exception {
        JSON.configure(Map.of("schemas.enable", "false"), true);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.append(answer(line.split(" "))).append('\n');
        }
        System.out.print(out);
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "heartbeat":
                Heartbeat heartbeat = new Heartbeat(text(words[1]), text(words[2]), Long.parseLong(words[3]));
                return record(heartbeat) + " " + word(connectKey("c", hidden(heartbeat, "connectPartition")));
            case "checkpoint":
                Checkpoint checkpoint = new Checkpoint(text(words[1]), partition(words[2], words[3]),
                    Long.parseLong(words[4]), Long.parseLong(words[5]), text(words[6]));
                return record(checkpoint) + " " + word(connectKey("c", hidden(checkpoint, "connectPartition")));
            case "sync":
                return record(new OffsetSync(
                    partition(words[1], words[2]), Long.parseLong(words[3]), Long.parseLong(words[4])));
            case "position":
                Method wrap = MirrorUtils.class.getDeclaredMethod("wrapPartition", TopicPartition.class, String.class);
                wrap.setAccessible(true);
                Object wrapped = wrap.invoke(null, partition(words[3], words[4]), text(words[2]));
                Object offset = MirrorUtils.wrapOffset(Long.parseLong(words[5]));
                return word(connectKey(text(words[1]), wrapped)) + " " + word(JSON.fromConnectData("t", null, offset));
            case "read":
                return read(FORMATTERS.get(words[1]), bytes(words[2]), bytes(words[3]));
            case "partition":
                byte[] key = bytes(words[1]);
                return Utils.murmur2(key) + " " + BuiltInPartitioner.partitionForKey(key, Integer.parseInt(words[2]));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    static String record(Object message) throws Exception {
        return word((byte[]) hidden(message, "recordKey")) + " " + word((byte[]) hidden(message, "recordValue"));
    }

    static Object hidden(Object object, String method) throws Exception {
        Method found = object.getClass().getDeclaredMethod(method);
        found.setAccessible(true);
        return found.invoke(object);
    }

    static byte[] connectKey(String connector, Object partition) {
        return JSON.fromConnectData("t", null, Arrays.asList(connector, partition));
    }

    static String read(MessageFormatter formatter, byte[] key, byte[] value) {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        try (PrintStream out = new PrintStream(printed, true, StandardCharsets.UTF_8)) {
            formatter.writeTo(new ConsumerRecord<>("t", 0, 0, key, value), out);
        } catch (SchemaException refusal) {
            return "refused";
        }
        return word(printed.toByteArray());
    }

    static TopicPartition partition(String topic, String number) {
        return new TopicPartition(text(topic), Integer.parseInt(number));
    }

    static byte[] bytes(String word) {
        return HexFormat.of().parseHex(word.substring(1));
    }

    static String text(String word) {
        return new String(bytes(word), StandardCharsets.UTF_8);
    }

    static String word(byte[] bytes) {
        return "x" + HexFormat.of().formatHex(bytes);
    }
}
