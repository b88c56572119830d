// Says of each line of one file, a key in hex, as a line of another: its murmur2 and its partitions, as the Java client
// has them.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

public class Murmur2 {
    public static void main(String[] args) throws Exception {
        List<String> answers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            byte[] key = HexFormat.of().parseHex(line);
            StringBuilder answer = new StringBuilder(Integer.toString(Utils.murmur2(key)));
            for (int partitions : new int[] {1, 2, 3, 4, 7, 64, 100, 1024}) {
                answer.append(' ').append(BuiltInPartitioner.partitionForKey(key, partitions));
            }
            answers.add(answer.toString());
        }
        Files.write(Path.of(args[1]), answers);
    }
}
