// Fetch and Produce of version 13, read and written by Kafka's own classes. One case a line; words are x<hex>.
//
//   in   fetch-request  bytes
//   out  the same request as Kafka writes it; its limits and session; each partition, and each forgotten one after a minus
//   in   produce-request  bytes
//   out  the same request as Kafka writes it; acks, timeout and transactional id; each partition with its records
//   in   fetch-answer | produce-answer  seed
//   out  an answer drawn from the seed, tagged fields included; what it says as a whole; each partition
//
// What belongs together is joined with commas.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Random;
import java.util.StringJoiner;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;

public class TopicIdsProbe {
    static final short VERSION = 13;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            out.append(switch (words[0]) {
                case "fetch-request" -> fetchRequest(bytes(words[1]));
                case "produce-request" -> produceRequest(bytes(words[1]));
                case "fetch-answer" -> fetchAnswer(new Random(Long.parseLong(words[1])));
                default -> produceAnswer(new Random(Long.parseLong(words[1])));
            }).append('\n');
        }
        System.out.print(out);
    }

    static ByteBuffer bytes(String word) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(word.substring(1)));
    }

    static String word(ByteBuffer buffer) {
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return "x" + HexFormat.of().formatHex(copy);
    }

    static String text(String value) {
        return value == null ? "-" : "x" + HexFormat.of().formatHex(value.getBytes(StandardCharsets.UTF_8));
    }

    static String written(Message message) {
        return word(MessageUtil.toByteBufferAccessor(message, VERSION).buffer());
    }

    static String joined(Object... values) {
        StringJoiner all = new StringJoiner(",");
        for (Object value : values) {
            all.add(String.valueOf(value));
        }
        return all.toString();
    }

    static String fetchRequest(ByteBuffer buffer) {
        FetchRequestData data = new FetchRequestData(new ByteBufferAccessor(buffer), VERSION);
        StringJoiner out = new StringJoiner(" ").add(written(data)).add(joined(buffer.remaining(), data.replicaId(),
            data.maxWaitMs(), data.minBytes(), data.maxBytes(), data.isolationLevel(), data.sessionId(),
            data.sessionEpoch(), text(data.rackId())));
        data.topics().forEach(topic -> topic.partitions().forEach(one -> out.add(joined(topic.topicId(),
            one.partition(), one.currentLeaderEpoch(), one.fetchOffset(), one.lastFetchedEpoch(),
            one.logStartOffset(), one.partitionMaxBytes()))));
        data.forgottenTopicsData().forEach(topic -> topic.partitions().forEach(
            one -> out.add(joined("-", topic.topicId(), one))));
        return out.toString();
    }

    static String produceRequest(ByteBuffer buffer) {
        ProduceRequestData data = new ProduceRequestData(new ByteBufferAccessor(buffer), VERSION);
        StringJoiner out = new StringJoiner(" ").add(written(data)).add(joined(buffer.remaining(), data.acks(),
            data.timeoutMs(), text(data.transactionalId())));
        data.topicData().forEach(topic -> topic.partitionData().forEach(one -> out.add(joined(topic.topicId(),
            one.index(), word(((MemoryRecords) one.records()).buffer())))));
        return out.toString();
    }

    static Uuid id(int topic) {
        return new Uuid(0x0123456789abcdefL, topic);
    }

    static long number(Random chance) {
        return chance.nextInt(4) == 0 ? -1 : chance.nextLong() >>> chance.nextInt(1, 60);
    }

    static String some(Random chance) {
        int size = chance.nextInt(5) == 0 ? 200 : chance.nextInt(6);
        return chance.nextBoolean() ? null : "ü".repeat(size);
    }

    static String fetchAnswer(Random chance) {
        FetchResponseData data = new FetchResponseData().setThrottleTimeMs(chance.nextInt(3) * 100)
            .setErrorCode((short) (chance.nextInt(5) == 0 ? 70 : 0)).setSessionId(chance.nextInt());
        StringJoiner out = new StringJoiner(" ");
        out.add(joined(data.throttleTimeMs(), data.errorCode(), data.sessionId()));
        for (int topic = chance.nextInt(4); topic > 0; topic--) {
            var partitions = new FetchResponseData.FetchableTopicResponse().setTopicId(id(topic));
            for (int number = chance.nextInt(chance.nextInt(8) == 0 ? 200 : 4); number > 0; number--) {
                partitions.partitions().add(fetched(chance, topic, number, out));
            }
            data.responses().add(partitions);
        }
        return written(data) + " " + out;
    }

    static FetchResponseData.PartitionData fetched(Random chance, int topic, int number, StringJoiner out) {
        byte[] records = new byte[chance.nextInt(5) == 0 ? chance.nextInt(20_000) : chance.nextInt(20)];
        chance.nextBytes(records);
        var one = new FetchResponseData.PartitionData().setPartitionIndex(number)
            .setErrorCode((short) chance.nextInt(-1, 107)).setHighWatermark(number(chance))
            .setLastStableOffset(number(chance)).setLogStartOffset(number(chance))
            .setPreferredReadReplica(chance.nextInt(-1, 3))
            .setRecords(chance.nextInt(4) == 0 ? null : MemoryRecords.readableRecords(ByteBuffer.wrap(records)));
        StringJoiner aborted = new StringJoiner(";");
        if (chance.nextBoolean()) {
            one.setAbortedTransactions(null);
        }
        for (int count = chance.nextInt(8) == 0 ? 150 : chance.nextInt(3); count > 0; count--) {
            if (one.abortedTransactions() == null) {
                one.setAbortedTransactions(new java.util.ArrayList<>());
            }
            var each = new FetchResponseData.AbortedTransaction().setProducerId(number(chance))
                .setFirstOffset(number(chance));
            if (chance.nextInt(50) == 0) {
                each.unknownTaggedFields().add(new org.apache.kafka.common.protocol.types.RawTaggedField(
                    7, new byte[chance.nextInt(300)]));
            }
            one.abortedTransactions().add(each);
            aborted.add(each.producerId() + ":" + each.firstOffset());
        }
        if (chance.nextInt(3) == 0) {
            one.currentLeader().setLeaderId(chance.nextInt(9)).setLeaderEpoch(chance.nextInt());
        }
        if (chance.nextInt(3) == 0) {
            one.divergingEpoch().setEpoch(chance.nextInt(9)).setEndOffset(number(chance));
        }
        byte[] sent = one.records() == null ? new byte[0] : records;
        out.add(joined(id(topic), number, one.errorCode(), one.highWatermark(), one.lastStableOffset(),
            one.logStartOffset(), one.preferredReadReplica(), word(ByteBuffer.wrap(sent)), "[" + aborted + "]"));
        return one;
    }

    static String produceAnswer(Random chance) {
        ProduceResponseData data = new ProduceResponseData().setThrottleTimeMs(chance.nextInt(3) * 100);
        StringJoiner out = new StringJoiner(" ").add(Integer.toString(data.throttleTimeMs()));
        for (int topic = chance.nextInt(4); topic > 0; topic--) {
            var partitions = new ProduceResponseData.TopicProduceResponse().setTopicId(id(topic));
            for (int number = chance.nextInt(chance.nextInt(8) == 0 ? 200 : 4); number > 0; number--) {
                partitions.partitionResponses().add(produced(chance, topic, number, out));
            }
            data.responses().add(partitions);
        }
        if (chance.nextBoolean()) {
            data.nodeEndpoints().add(new ProduceResponseData.NodeEndpoint().setNodeId(1).setHost("host")
                .setPort(chance.nextInt()).setRack(some(chance)));
        }
        return written(data) + " " + out;
    }

    static ProduceResponseData.PartitionProduceResponse produced(
            Random chance, int topic, int number, StringJoiner out) {
        var one = new ProduceResponseData.PartitionProduceResponse().setIndex(number)
            .setErrorCode((short) chance.nextInt(-1, 107)).setBaseOffset(number(chance))
            .setLogAppendTimeMs(number(chance)).setLogStartOffset(number(chance)).setErrorMessage(some(chance));
        StringJoiner errors = new StringJoiner(";");
        for (int count = chance.nextInt(3); count > 0; count--) {
            var each = new ProduceResponseData.BatchIndexAndErrorMessage().setBatchIndex(chance.nextInt())
                .setBatchIndexErrorMessage(some(chance));
            one.recordErrors().add(each);
            errors.add(each.batchIndex() + ":" + text(each.batchIndexErrorMessage()));
        }
        if (chance.nextInt(3) == 0) {
            one.currentLeader().setLeaderId(chance.nextInt(9)).setLeaderEpoch(chance.nextInt());
        }
        out.add(joined(id(topic), number, one.errorCode(), one.baseOffset(), one.logAppendTimeMs(),
            one.logStartOffset(), text(one.errorMessage()), "[" + errors + "]"));
        return one;
    }
}
