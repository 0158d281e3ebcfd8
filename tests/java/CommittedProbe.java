// What Kafka's own consumer with isolation.level=read_committed delivers, from the beginning of each log to its last
// stable offset. Its arguments are the bootstrap servers, and how many seconds it may take.
//
//   in   topic  partition
//   out  topic  partition  last stable offset  offset:value ...        the values in hex; in any order of partitions

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class CommittedProbe {
    public static void main(String[] arguments) throws Exception {
        Map<TopicPartition, StringBuilder> found = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            found.put(new TopicPartition(words[0], Integer.parseInt(words[1])), new StringBuilder());
        }
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("isolation.level", "read_committed");
        long giveUpAt = System.nanoTime() + Long.parseLong(arguments[1]) * 1_000_000_000L;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(found.keySet());
            consumer.seekToBeginning(found.keySet());
            Map<TopicPartition, Long> ends = consumer.endOffsets(found.keySet());
            while (found.keySet().stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                if (System.nanoTime() > giveUpAt) {
                    throw new IllegalStateException("not read to the end in time");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    found.get(new TopicPartition(record.topic(), record.partition()))
                        .append(' ').append(record.offset())
                        .append(':').append(HexFormat.of().formatHex(record.value()));
                }
            }
            found.forEach((each, records) ->
                System.out.println(each.topic() + " " + each.partition() + " " + ends.get(each) + records));
        }
    }
}
