// Says of each line "reader <tab> writer" of one file, as a line of another, whether Avro's own library finds the pair
// compatible.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

public class Compatibility {
    public static void main(String[] args) throws Exception {
        List<String> answers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            answers.add(judge(line.split("\t")));
        }
        Files.write(Path.of(args[1]), answers);
    }

    private static String judge(String[] pair) {
        try {
            Schema reader = new Schema.Parser().parse(pair[0]);
            Schema writer = new Schema.Parser().parse(pair[1]);
            return SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType().toString();
        } catch (RuntimeException e) {
            return "INVALID " + e.getMessage().replaceAll("\\s+", " ");
        }
    }
}
