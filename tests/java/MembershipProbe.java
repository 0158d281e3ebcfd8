// What the members of a group say to each other and to their coordinator, in the bytes of Kafka's own classes.
// One case a line; words are x<hex>, null is "-"; partitions are topic:number,… with topics as x<hex>.
//
//   in   subscription  topic,…  partitions  generation
//   in   assignment  partitions
//   out  the bytes
//   in   request  api  version  group  member  generation  word  word
//   out  the bytes of a request without its header
//   in   response  api  version  error  generation  member  leader  word
//   out  the bytes of an answer without its header

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.LeaveGroupResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class MembershipProbe {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            ByteBuffer answer = switch (words[0]) {
                case "subscription" -> ConsumerProtocol.serializeSubscription(new Subscription(
                    topics(words[1]), null, partitions(words[2]), Integer.parseInt(words[3]), Optional.empty()));
                case "assignment" -> ConsumerProtocol.serializeAssignment(new Assignment(partitions(words[1])));
                case "request" -> written(request(words), Short.parseShort(words[2]));
                default -> written(response(words), Short.parseShort(words[2]));
            };
            byte[] bytes = new byte[answer.remaining()];
            answer.get(bytes);
            out.append('x').append(HexFormat.of().formatHex(bytes)).append('\n');
        }
        System.out.print(out);
    }

    static ApiMessage request(String[] words) {
        String group = text(words[3]), member = text(words[4]);
        int generation = Integer.parseInt(words[5]);
        short version = Short.parseShort(words[2]);
        switch (words[1]) {
            case "JoinGroup":
                var protocols = new JoinGroupRequestData.JoinGroupRequestProtocolCollection();
                protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol()
                    .setName(text(words[6])).setMetadata(bytes(words[7])));
                return new JoinGroupRequestData().setGroupId(group).setMemberId(member)
                    .setSessionTimeoutMs(generation).setRebalanceTimeoutMs(2 * generation)
                    .setProtocolType("consumer").setProtocols(protocols);
            case "SyncGroup":
                var request = new SyncGroupRequestData().setGroupId(group).setMemberId(member)
                    .setGenerationId(generation).setAssignments(List.of(
                        new SyncGroupRequestData.SyncGroupRequestAssignment()
                            .setMemberId(text(words[6])).setAssignment(bytes(words[7]))));
                return version < 5 ? request : request.setProtocolType("consumer").setProtocolName("cooperative-sticky");
            case "Heartbeat":
                return new HeartbeatRequestData().setGroupId(group).setMemberId(member).setGenerationId(generation);
            default:
                if (version < 3) {
                    return new LeaveGroupRequestData().setGroupId(group).setMemberId(member);
                }
                return new LeaveGroupRequestData().setGroupId(group).setMembers(List.of(
                    new LeaveGroupRequestData.MemberIdentity().setMemberId(member)));
        }
    }

    static ApiMessage response(String[] words) {
        short version = Short.parseShort(words[2]), error = Short.parseShort(words[3]);
        String member = text(words[5]), leader = text(words[6]);
        switch (words[1]) {
            case "JoinGroup":
                return new JoinGroupResponseData().setErrorCode(error).setGenerationId(Integer.parseInt(words[4]))
                    .setProtocolName("cooperative-sticky").setLeader(leader).setMemberId(member)
                    .setMembers(List.of(new JoinGroupResponseData.JoinGroupResponseMember()
                        .setMemberId(leader).setMetadata(bytes(words[7]))));
            case "SyncGroup":
                return new SyncGroupResponseData().setErrorCode(error).setAssignment(bytes(words[7]));
            case "Heartbeat":
                return new HeartbeatResponseData().setErrorCode(error);
            default:
                if (version < 3) {
                    return new LeaveGroupResponseData().setErrorCode(error);
                }
                return new LeaveGroupResponseData().setMembers(List.of(
                    new LeaveGroupResponseData.MemberResponse().setMemberId(member).setErrorCode(error)));
        }
    }

    static ByteBuffer written(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.flip();
    }

    static List<String> topics(String word) {
        List<String> found = new ArrayList<>();
        for (String each : word.split(",")) {
            found.add(text(each));
        }
        return found;
    }

    static List<TopicPartition> partitions(String word) {
        List<TopicPartition> found = new ArrayList<>();
        for (String each : word.equals("-") ? new String[0] : word.split(",")) {
            String[] parts = each.split(":");
            found.add(new TopicPartition(text(parts[0]), Integer.parseInt(parts[1])));
        }
        return found;
    }

    static String text(String word) {
        return new String(bytes(word));
    }

    static byte[] bytes(String word) {
        return HexFormat.of().parseHex(word.substring(1));
    }
}
