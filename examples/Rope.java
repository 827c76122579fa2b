// A model's rotary table from posref: fetch it, check it, read a part of it, find a mistake.
// Run, beside config.json: java Rope.java http://127.0.0.1:8000
import java.io.IOException;
import java.net.*;
import java.net.http.*;
import java.nio.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.Locale;

class Rope {
    static final HttpClient CLIENT = HttpClient.newHttpClient();
    static String server = "http://127.0.0.1:8000";

    /** Returns an answer, which must have this status. With a body, the request is a POST. */
    static HttpResponse<byte[]> ask(int status, String path, byte[] body, String... fields)
            throws Exception {
        var request = HttpRequest.newBuilder(URI.create(server + path));
        if (fields.length > 0) request.headers(fields);
        if (body != null) request.POST(HttpRequest.BodyPublishers.ofByteArray(body));
        var answer = CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
        if (answer.statusCode() == status) return answer;
        throw new IOException(answer + " " + new String(answer.body()));
    }

    /** Returns the text between two others. */
    static String between(HttpResponse<byte[]> answer, String before, String after) {
        var text = new String(answer.body());
        var start = text.indexOf(before) + before.length();
        return text.substring(start, text.indexOf(after, start));
    }

    static void check(String name, float value, double expected) throws Exception {
        System.out.printf(Locale.ROOT, "%s: %.6f%n", name, value);
        if (!(Math.abs(value - expected) < 1e-6)) throw new Exception("expected " + expected);
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) server = arguments[0];

        // From the config to the cosines in the layout of the model: a row of 64 for each position.
        var model = ask(200, "/rope/config", Files.readAllBytes(Path.of("config.json")),
                "Content-Type", "application/json", "Accept", "text/plain");
        System.out.println("layout: " + between(model, "\nlayout: ", "\n"));
        var link = between(model, "\ndefault.cos: ", "\n");
        var table = ask(200, link, null);
        // A header of npy has 128 bytes. The config divides the lowest frequency by its factor, 32.
        var numbers = ByteBuffer.wrap(table.body()).order(ByteOrder.LITTLE_ENDIAN);
        var cos = numbers.position(128).asFloatBuffer();
        var lowest = Math.pow(500000, -62. / 64) / 32;
        check("cos[131071][31]", cos.get(131071 * 64 + 31), Math.cos(131071 * lowest));
        ask(304, link, null, "If-None-Match", table.headers().firstValue("ETag").orElseThrow());
        System.out.println("unchanged: 304");

        // Row 1000000000 of a table of 512 GiB, at byte 128 + 4 * 64 * 1000000000; a misspelling.
        var range = "bytes=256000000128-256000000383";
        var row = ask(206, link + "&seq_len=2147483648", null, "Range", range).body();
        var first = ByteBuffer.wrap(row).order(ByteOrder.LITTLE_ENDIAN).getFloat();
        check("cos[1000000000][0]", first, Math.cos(1e9));
        var problem = ask(422, "/rope?head_dim=64&seqlen=8", null);
        System.out.println("problem: " + between(problem, "\"detail\":\"", "\""));

        // The first 64 rows of an engine that interleaves the channels of a model with halves.
        var mine = ByteBuffer.allocate(64 * 64 * 4).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < 64 * 64; i++) mine.putFloat(cos.get(i - i % 64 + i % 64 / 2));
        var to = URLEncoder.encode(link, StandardCharsets.UTF_8);
        var report = ask(200, "/diagnose?shape=64,64&dtype=float32&to=" + to, mine.array(),
                "Content-Type", "application/octet-stream", "Accept", "text/plain");
        System.out.println("diagnosis: " + between(report, "", "\n"));
    }
}
