// Records of all formats and codecs, written and read by Kafka's own client classes. One case a line; words are x<hex>.
//
//   in   write  seed
//   out  a record set of batches of all formats and codecs, then each batch described
//   in   read  record-set
//   out  each batch, checked by ensureValid, described
//
// A batch is described by words joined with commas, in the order of `describe`; its records follow after semicolons.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Random;
import java.util.StringJoiner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.Utils;

public class RecordsCodecProbe {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            ByteBuffer recordSet = words[0].equals("write")
                ? written(new Random(Long.parseLong(words[1])))
                : ByteBuffer.wrap(HexFormat.of().parseHex(words[1].substring(1)));
            if (words[0].equals("write")) {
                out.append(word(recordSet)).append(' ');
            }
            out.append(described(recordSet)).append('\n');
        }
        System.out.print(out);
    }

    static String described(ByteBuffer recordSet) {
        StringJoiner all = new StringJoiner(" ");
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(recordSet).batches()) {
            batch.ensureValid();
            all.add(describe(batch));
        }
        return all.length() == 0 ? "-" : all.toString();
    }

    static String describe(RecordBatch batch) {
        StringJoiner records = new StringJoiner(";");
        records.add(String.join(",",
            Integer.toString(batch.magic()),
            Integer.toString(batch.compressionType().id),
            batch.timestampType().toString(),
            Boolean.toString(batch.isTransactional()),
            Long.toString(batch.producerId()),
            Short.toString(batch.producerEpoch()),
            Integer.toString(batch.baseSequence()),
            Long.toString(batch.lastOffset()),
            Long.toString(batch.maxTimestamp())));
        for (Record record : batch) {
            record.ensureValid();
            StringJoiner fields = new StringJoiner(",");
            fields.add(Long.toString(record.offset())).add(Long.toString(record.timestamp()));
            fields.add(word(record.key())).add(word(record.value()));
            for (Header header : record.headers()) {
                fields.add(word(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))));
                fields.add(header.value() == null ? "-" : word(ByteBuffer.wrap(header.value())));
            }
            records.add(fields.toString());
        }
        return records.toString();
    }

    static ByteBuffer written(Random random) {
        ByteBuffer all = ByteBuffer.allocate(1 << 23);
        long offset = random.nextInt(1000);
        byte magic = (byte) (random.nextInt(3) == 0 ? random.nextInt(2) : 2);
        for (int left = 1 + random.nextInt(5); left > 0; left--) {
            ByteBuffer batches = batch(random, offset, magic);
            if (magic == 2 && random.nextInt(3) == 0) {
                batches = compacted(random, batches);
            }
            for (RecordBatch each : MemoryRecords.readableRecords(batches.duplicate()).batches()) {
                offset = each.nextOffset() + random.nextInt(3);
            }
            all.put(batches);
        }
        all.flip();
        return all;
    }

    static ByteBuffer batch(Random random, long offset, byte magic) {
        CompressionType codec = CompressionType.forId(random.nextInt(magic < 2 ? 4 : 5));
        boolean stamped = magic > 0 && random.nextInt(4) == 0;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), magic,
            Compression.of(codec).build(),
            magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
                : stamped ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            offset, stamped ? time(random) : RecordBatch.NO_TIMESTAMP,
            RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, 0);
        // Now and then several blocks of lz4 and snappy.
        int largest = random.nextInt(15) == 0 ? 60_000 : 300;
        // The cleaner of today writes magic 2 only, so this is what older ones left.
        boolean holes = magic < 2 && random.nextBoolean();
        for (int left = 1 + random.nextInt(largest > 300 ? 5 : 100); left > 0; left--) {
            Header[] headers = new Header[magic < 2 ? 0 : random.nextInt(3)];
            for (int each = 0; each < headers.length; each++) {
                headers[each] = new RecordHeader("h€" + random.nextInt(3), bytes(random, 100));
            }
            builder.appendWithOffset(offset, magic == 0 ? RecordBatch.NO_TIMESTAMP : time(random),
                bytes(random, 100), bytes(random, largest), headers);
            offset += holes ? 1 + random.nextInt(3) : 1;
        }
        return builder.build().buffer();
    }

    // As the log cleaner leaves it: records missing, sometimes all of them.
    static ByteBuffer compacted(Random random, ByteBuffer batches) {
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
        ByteBuffer cleaned = ByteBuffer.allocate(1 << 20);
        MemoryRecords.readableRecords(batches).filterTo(filter, cleaned, BufferSupplier.NO_CACHING);
        cleaned.flip();
        return cleaned;
    }

    static long time(Random random) {
        return 1_700_000_000_000L + random.nextInt(random.nextBoolean() ? 100 : 1 << 30);
    }

    // Half of them shrink well.
    static byte[] bytes(Random random, int limit) {
        if (random.nextInt(5) == 0) {
            return null;
        }
        byte[] bytes = new byte[random.nextInt(limit)];
        if (random.nextBoolean()) {
            random.nextBytes(bytes);
        }
        return bytes;
    }

    static String word(ByteBuffer bytes) {
        return bytes == null ? "-" : "x" + HexFormat.of().formatHex(Utils.toArray(bytes));
    }
}
