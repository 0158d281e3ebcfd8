// What MirrorMaker 2's OffsetSyncStore makes of the offset syncs of one partition. One case a line.
//
//   in   syncs and questions, in order: s<hex of key>:<hex of value> or ?<upstream offset>
//   out  the answers: an offset, -1, or - for none

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.OffsetSyncStore;

public class OffsetSyncStoreProbe {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.append(answer(line.split(" "))).append('\n');
        }
        System.out.print(out);
    }

    static String answer(String[] words) throws Exception {
        Constructor<OffsetSyncStore> constructor = OffsetSyncStore.class.getDeclaredConstructor();
        constructor.setAccessible(true);
        OffsetSyncStore store = constructor.newInstance();
        // As after a start that could load the checkpoints, and has read the topic.
        set(store, "initializationMustReadToEnd", false);
        set(store, "readToEnd", true);
        Method handle = OffsetSyncStore.class.getDeclaredMethod("handleRecord", ConsumerRecord.class);
        handle.setAccessible(true);
        List<String> answers = new ArrayList<>();
        for (String word : words) {
            if (word.startsWith("?")) {
                OptionalLong found = store.translateDownstream(
                    "group", new TopicPartition("orders", 0), Long.parseLong(word.substring(1)));
                answers.add(found.isPresent() ? Long.toString(found.getAsLong()) : "-");
            } else {
                String[] parts = word.substring(1).split(":");
                handle.invoke(store, new ConsumerRecord<>("syncs", 0, 0L, bytes(parts[0]), bytes(parts[1])));
            }
        }
        return String.join(" ", answers);
    }

    static void set(OffsetSyncStore store, String name, boolean value) throws Exception {
        Field field = OffsetSyncStore.class.getDeclaredField(name);
        field.setAccessible(true);
        field.setBoolean(store, value);
    }

    static byte[] bytes(String hex) {
        return HexFormat.of().parseHex(hex);
    }
}
