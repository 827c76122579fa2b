// java Client.java URL: send the requests of standard input with Java's HttpClient.
import java.net.URI;
import java.net.http.*;
import java.util.HexFormat;
import java.util.Scanner;

class Client {
    public static void main(String[] arguments) throws Exception {
        var client = HttpClient.newHttpClient();
        var lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            var fields = lines.nextLine().split("\t", -1);
            var body = fields[3].isEmpty()
                ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofString(fields[3]);
            var request = HttpRequest.newBuilder(URI.create(arguments[0] + fields[1]))
                .method(fields[0], body);
            for (var header : fields[2].isEmpty() ? new String[0] : fields[2].split("\\|")) {
                request.header(header.split(": ")[0], header.split(": ")[1]);
            }
            var answer = client.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
            System.out.printf("{\"status\": %d, \"body\": \"%s\"}%n",
                answer.statusCode(), HexFormat.of().formatHex(answer.body()));
        }
    }
}
