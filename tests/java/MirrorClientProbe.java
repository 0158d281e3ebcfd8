// What RemoteClusterUtils and MirrorClient say about a cluster. One question a line; words are x<hex of UTF-8>.
//
//   in   servers  replication policy class  offsets  alias  group    out  topic-partition=offset …, sorted
//                                           pattern  alias  regex         group/topic-partition=offset …
//                                           hops     alias                a number
//                                           heartbeats, checkpoints, upstream, remote [alias]     names, sorted
//
// The answer is one word, its lines joined with newlines.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

public class MirrorClientProbe {
    static final Duration TIMEOUT = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            byte[] answer = String.join("\n", answer(line.split(" "))).getBytes(StandardCharsets.UTF_8);
            out.append('x').append(HexFormat.of().formatHex(answer)).append('\n');
        }
        System.out.print(out);
    }

    static Set<String> answer(String[] words) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", text(words[0]));
        settings.put("replication.policy.class", text(words[1]));
        switch (text(words[2])) {
            case "offsets":
                return named("", RemoteClusterUtils.translateOffsets(settings, text(words[3]), text(words[4]), TIMEOUT));
            case "pattern":
                Set<String> all = new TreeSet<>();
                RemoteClusterUtils.translateOffsets(settings, text(words[3]), Pattern.compile(text(words[4])), TIMEOUT)
                    .forEach((group, offsets) -> all.addAll(named(group + "/", offsets)));
                return all;
            case "hops":
                return Set.of(Integer.toString(RemoteClusterUtils.replicationHops(settings, text(words[3]))));
            case "heartbeats":
                return new TreeSet<>(RemoteClusterUtils.heartbeatTopics(settings));
            case "checkpoints":
                return new TreeSet<>(RemoteClusterUtils.checkpointTopics(settings));
            case "upstream":
                return new TreeSet<>(RemoteClusterUtils.upstreamClusters(settings));
            case "remote":
                try (MirrorClient client = new MirrorClient(settings)) {
                    return new TreeSet<>(words.length > 3 ? client.remoteTopics(text(words[3])) : client.remoteTopics());
                }
            default:
                throw new IllegalArgumentException(text(words[2]));
        }
    }

    static Set<String> named(String prefix, Map<TopicPartition, OffsetAndMetadata> offsets) {
        Set<String> found = new TreeSet<>();
        offsets.forEach((partition, offset) -> found.add(prefix + partition + "=" + offset.offset()));
        return found;
    }

    static String text(String word) {
        return new String(HexFormat.of().parseHex(word.substring(1)), StandardCharsets.UTF_8);
    }
}
