// What Kafka's replication policies say about a topic. One case a line; words are x<hex of UTF-8>, or - for null.
//
//   in   class  separator  internal-separator-enabled  source-alias  topic  alias
//   out  formatRemoteTopic(alias, topic)  topicSource  upstreamTopic  originalTopic  heartbeatsTopic
//        offsetSyncsTopic(alias)  checkpointsTopic(alias)  isHeartbeatsTopic  isCheckpointsTopic  isMM2InternalTopic
//        isInternalTopic  countHopsForTopic(topic, alias)  isCycle(topic) of a flow into alias

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.connect.mirror.ConfigPropertyFilter;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.ReplicationPolicy;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.mirror.TopicFilter;

public class NamingProbe {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.append(answer(line.split(" "))).append('\n');
        }
        System.out.print(out);
    }

    static String answer(String[] words) throws Exception {
        ReplicationPolicy policy = (ReplicationPolicy) Class.forName(text(words[0])).getConstructor().newInstance();
        Map<String, Object> settings = new HashMap<>();
        put(settings, "replication.policy.separator", text(words[1]));
        put(settings, "replication.policy.internal.topic.separator.enabled", text(words[2]));
        put(settings, "source.cluster.alias", text(words[3]));
        ((Configurable) policy).configure(settings);
        String topic = text(words[4]);
        String alias = text(words[5]);
        return String.join(" ",
            word(policy.formatRemoteTopic(alias, topic)),
            word(policy.topicSource(topic)),
            word(policy.upstreamTopic(topic)),
            word(policy.originalTopic(topic)),
            word(policy.heartbeatsTopic()),
            word(policy.offsetSyncsTopic(alias)),
            word(policy.checkpointsTopic(alias)),
            word(policy.isHeartbeatsTopic(topic)),
            word(policy.isCheckpointsTopic(topic)),
            word(policy.isMM2InternalTopic(topic)),
            word(policy.isInternalTopic(topic)),
            word(hops(policy, topic, alias)),
            word(isCycle(policy, topic, alias)));
    }

    static Object hops(ReplicationPolicy policy, String topic, String alias) throws Exception {
        Constructor<MirrorClient> client =
            MirrorClient.class.getDeclaredConstructor(Admin.class, ReplicationPolicy.class, Map.class);
        client.setAccessible(true);
        Method count = MirrorClient.class.getDeclaredMethod("countHopsForTopic", String.class, String.class);
        count.setAccessible(true);
        return count.invoke(client.newInstance(null, policy, null), topic, alias);
    }

    static Object isCycle(ReplicationPolicy policy, String topic, String target) throws Exception {
        Constructor<MirrorSourceConnector> connector = MirrorSourceConnector.class.getDeclaredConstructor(
            SourceAndTarget.class, ReplicationPolicy.class, TopicFilter.class, ConfigPropertyFilter.class);
        connector.setAccessible(true);
        Method isCycle = MirrorSourceConnector.class.getDeclaredMethod("isCycle", String.class);
        isCycle.setAccessible(true);
        SourceAndTarget flow = new SourceAndTarget("unused", target);
        return isCycle.invoke(connector.newInstance(flow, policy, null, null), topic);
    }

    static void put(Map<String, Object> settings, String key, String value) {
        if (value != null) {
            settings.put(key, value);
        }
    }

    static String text(String word) {
        byte[] bytes = word.equals("-") ? null : HexFormat.of().parseHex(word.substring(1));
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static String word(Object value) {
        byte[] bytes = value == null ? null : value.toString().getBytes(StandardCharsets.UTF_8);
        return bytes == null ? "-" : "x" + HexFormat.of().formatHex(bytes);
    }
}
