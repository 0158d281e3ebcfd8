// Record batches, made and read by Kafka's own client classes. One case a line; words are x<hex>.
//
//   in   make  seed
//   out  a record set with batches of many kinds, then each of them described
//   in   read  record-set
//   out  each batch, checked by ensureValid, described
//   in   consume  fetch-offset  producer-id:first-offset,…  record-set
//   out  the offsets that a consumer with read_committed delivers, the list being that of aborted transactions
//
// A batch is described by words joined with commas, in the order of `describe`; its records follow after semicolons.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.StringJoiner;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.internals.AutoOffsetResetStrategy;
import org.apache.kafka.clients.consumer.internals.CompletedFetch;
import org.apache.kafka.clients.consumer.internals.Deserializers;
import org.apache.kafka.clients.consumer.internals.FetchConfig;
import org.apache.kafka.clients.consumer.internals.FetchMetricsManager;
import org.apache.kafka.clients.consumer.internals.FetchMetricsRegistry;
import org.apache.kafka.clients.consumer.internals.SubscriptionState;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Utils;
import org.slf4j.LoggerFactory;

public class BatchesProbe {
    static final TopicPartition PARTITION = new TopicPartition("t", 0);

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.append(answer(line.split(" "))).append('\n');
        }
        System.out.print(out);
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "make":
                ByteBuffer made = made(new Random(Long.parseLong(words[1])));
                return word(made) + " " + described(made);
            case "read":
                return described(buffer(words[1]));
            case "consume":
                return consumed(Long.parseLong(words[1]), words[2], buffer(words[3]));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    static String described(ByteBuffer recordSet) {
        StringJoiner all = new StringJoiner(" ");
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(recordSet).batches()) {
            batch.ensureValid();
            all.add(describe(batch));
        }
        return all.toString();
    }

    static String describe(RecordBatch batch) {
        StringJoiner records = new StringJoiner(";");
        records.add(String.join(",",
            Integer.toString(batch.magic()),
            Long.toString(batch.lastOffset()),
            Integer.toString(batch.sizeInBytes()),
            batch.magic() < 2 ? "old" : String.join(",",
                Long.toString(batch.baseOffset()),
                Long.toString(batch.countOrNull()),
                Integer.toString(batch.compressionType().id),
                Boolean.toString(batch.timestampType() == TimestampType.LOG_APPEND_TIME),
                Boolean.toString(batch.isTransactional()),
                Boolean.toString(batch.isControlBatch()),
                Boolean.toString(batch.deleteHorizonMs().isPresent()),
                Long.toString(batch.producerId()),
                Short.toString(batch.producerEpoch()),
                Integer.toString(batch.baseSequence()),
                Integer.toString(batch.partitionLeaderEpoch()),
                Long.toString(batch.maxTimestamp()),
                Long.toString(batch.checksum()),
                controlType(batch))));
        for (Record record : batch) {
            StringJoiner fields = new StringJoiner(",");
            fields.add(Long.toString(record.offset())).add(Long.toString(record.timestamp()));
            fields.add(word(record.key())).add(word(record.value()));
            for (Header header : record.headers()) {
                fields.add(header.key()).add(header.value() == null ? "-" : word(ByteBuffer.wrap(header.value())));
            }
            records.add(fields.toString());
        }
        return records.toString();
    }

    static String controlType(RecordBatch batch) {
        return batch.isControlBatch() && batch.iterator().hasNext()
            ? ControlRecordType.parse(batch.iterator().next().key()).toString()
            : "-";
    }

    static ByteBuffer made(Random random) {
        ByteBuffer all = ByteBuffer.allocate(1 << 20);
        long offset = random.nextInt(1000);
        for (int left = 1 + random.nextInt(6); left > 0; left--) {
            int kind = random.nextInt(10);
            ByteBuffer batch = kind == 0 ? marker(random, offset)
                : kind == 1 ? ordinary(random, offset, (byte) random.nextInt(2))
                : kind < 5 ? compacted(random, ordinary(random, offset, (byte) 2))
                : ordinary(random, offset, (byte) 2);
            for (RecordBatch each : MemoryRecords.readableRecords(batch.duplicate()).batches()) {
                offset = each.nextOffset() + random.nextInt(3);
            }
            all.put(batch);
        }
        all.flip();
        return all;
    }

    static ByteBuffer marker(Random random, long offset) {
        ControlRecordType type = random.nextBoolean() ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
        return MemoryRecords.withEndTransactionMarker(
            offset, time(random), random.nextInt(9), random.nextInt(5), (short) 1, new EndTransactionMarker(type, 3)
        ).buffer();
    }

    static ByteBuffer ordinary(Random random, long offset, byte magic) {
        CompressionType codec = CompressionType.forId(random.nextInt(magic < 2 ? 4 : 5));
        boolean producer = magic == 2 && random.nextBoolean();
        boolean stamped = magic > 0 && random.nextInt(4) == 0;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), magic,
            Compression.of(codec).build(),
            magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
                : stamped ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            offset, stamped ? time(random) : RecordBatch.NO_TIMESTAMP,
            producer ? random.nextInt(1 << 20) : -1, (short) (producer ? random.nextInt(9) : -1),
            producer ? random.nextInt(1 << 30) : -1, producer && random.nextBoolean(), random.nextInt(9));
        for (int left = 1 + random.nextInt(20); left > 0; left--) {
            Header[] headers = new Header[magic < 2 ? 0 : random.nextInt(3)];
            for (int each = 0; each < headers.length; each++) {
                headers[each] = new RecordHeader("h" + random.nextInt(3), bytes(random, 10));
            }
            builder.append(magic == 0 ? RecordBatch.NO_TIMESTAMP : time(random),
                bytes(random, 10), bytes(random, 300), headers);
        }
        return builder.build().buffer();
    }

    // As the log cleaner leaves it: records missing, sometimes all of them, and a delete horizon where tombstones are.
    static ByteBuffer compacted(Random random, ByteBuffer batch) {
        int keptOfTen = random.nextInt(11);
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(1_800_000_000_000L, 1000) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, false);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return random.nextInt(10) < keptOfTen;
            }
        };
        ByteBuffer cleaned = ByteBuffer.allocate(1 << 16);
        MemoryRecords.readableRecords(batch).filterTo(filter, cleaned, BufferSupplier.NO_CACHING);
        cleaned.flip();
        return cleaned;
    }

    static long time(Random random) {
        return 1_700_000_000_000L + random.nextInt(1 << 30);
    }

    static byte[] bytes(Random random, int limit) {
        if (random.nextInt(5) == 0) {
            return null;
        }
        byte[] bytes = new byte[random.nextInt(limit)];
        random.nextBytes(bytes);
        return bytes;
    }

    static String consumed(long fetchOffset, String aborted, ByteBuffer recordSet) throws Exception {
        List<FetchResponseData.AbortedTransaction> transactions = new ArrayList<>();
        for (String pair : aborted.equals("-") ? new String[0] : aborted.split(",")) {
            String[] parts = pair.split(":");
            transactions.add(new FetchResponseData.AbortedTransaction()
                .setProducerId(Long.parseLong(parts[0])).setFirstOffset(Long.parseLong(parts[1])));
        }
        FetchResponseData.PartitionData response = new FetchResponseData.PartitionData()
            .setRecords(MemoryRecords.readableRecords(recordSet)).setAbortedTransactions(transactions);
        FetchConfig config = new FetchConfig(1, 1 << 20, 0, 1 << 20, 100_000, true, "", IsolationLevel.READ_COMMITTED);
        Method fetchRecords = CompletedFetch.class
            .getDeclaredMethod("fetchRecords", FetchConfig.class, Deserializers.class, int.class);
        fetchRecords.setAccessible(true);
        StringJoiner offsets = new StringJoiner(",");
        try (Metrics metrics = new Metrics()) {
            Object deserializers =
                new Deserializers<>(new ByteArrayDeserializer(), new ByteArrayDeserializer(), metrics);
            Object fetch = completedFetch(response, fetchOffset, metrics);
            for (Object record : (List<?>) fetchRecords.invoke(fetch, config, deserializers, 100_000)) {
                offsets.add(Long.toString(((ConsumerRecord<?, ?>) record).offset()));
            }
        }
        return offsets.length() == 0 ? "-" : offsets.toString();
    }

    static Object completedFetch(FetchResponseData.PartitionData response, long fetchOffset, Metrics metrics)
        throws Exception {
        Class<?> aggregatorClass =
            Class.forName("org.apache.kafka.clients.consumer.internals.FetchMetricsAggregator");
        Constructor<?> aggregator = aggregatorClass.getDeclaredConstructor(FetchMetricsManager.class, Set.class);
        aggregator.setAccessible(true);
        Constructor<?> fetch = CompletedFetch.class.getDeclaredConstructors()[0];
        fetch.setAccessible(true);
        return fetch.newInstance(
            LoggerFactory.getLogger(BatchesProbe.class),
            new SubscriptionState(new LogContext(), AutoOffsetResetStrategy.NONE),
            BufferSupplier.NO_CACHING, PARTITION, response,
            aggregator.newInstance(new FetchMetricsManager(metrics, new FetchMetricsRegistry()), Set.of(PARTITION)),
            fetchOffset);
    }

    static ByteBuffer buffer(String word) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(word.substring(1)));
    }

    static String word(ByteBuffer bytes) {
        return bytes == null ? "-" : "x" + HexFormat.of().formatHex(Utils.toArray(bytes));
    }
}
