// Uses the generated client, and prints what it made of each answer as one JSON object.
import java.io.File;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import posref.ApiClient;
import posref.ApiException;
import posref.api.EncodingApi;
import posref.api.EncodingApi.APIGetEncodingRequest;
import posref.api.RopeApi;
import posref.api.RopeApi.*;
import posref.model.*;

public class Main {
    public static void main(String[] arguments) throws Exception {
        ApiClient client = new ApiClient();
        client.updateBaseUri(arguments[0]);
        var json = client.getObjectMapper();
        EncodingApi encoding = new EncodingApi(client);
        RopeApi rope = new RopeApi(client);

        Table table = encoding.getEncoding(
            APIGetEncodingRequest.newBuilder().seqLen(2L).dModel(4L).build()).getTable();
        Tables tables = rope.getRope(
            APIGetRopeRequest.newBuilder().headDim(4L).seqLen(2L).pack(Pack.HALF).build()).getTables();
        File file = rope.getRopeAs(
            APIGetRopeAsRequest.newBuilder().extension(Extension.NPY).headDim(4L).seqLen(2L).build());
        Problem problem = refusal(rope, client);

        RopeApplyRequest x = new RopeApplyRequest().x(List.of(List.of(1, 2, 3, 4), List.of(5, 6, 7, 8)));
        Table rotated = rope.postRopeApply(
            APIPostRopeApplyRequest.newBuilder().ropeApplyRequest(x).layout(RopeApplyLayout.HALF).build()).getTable();
        Map<String, Object> config = json.readValue(arguments[1], Map.class);
        RotarySettings settings = rope.postRopeConfig(
            APIPostRopeConfigRequest.newBuilder().requestBody(config).build()).getRope().get("default");

        json.writeValue(System.out, Map.of(
            "table", Map.of("shape", table.getShape(), "dtype", table.getDtype(), "data", table.getData()),
            "tables", Map.of(
                "layout", tables.getLayout(), "shapes", tables.getShapes(), "data", tables.getData()),
            "file", Files.readAllBytes(file.toPath()),
            "problem", Map.of(
                "status", problem.getStatus(), "parameter", problem.getErrors().get(0).getParameter()),
            "rotated", rotated.getData(),
            "config", Map.of(
                "rope_theta", settings.getRopeTheta(),
                "links", List.of(settings.getTable(), settings.getFile()))));
    }

    static Problem refusal(RopeApi rope, ApiClient client) throws Exception {
        try {
            rope.getRope(APIGetRopeRequest.newBuilder().headDim(5L).seqLen(2L).build());
        } catch (ApiException refused) {
            return client.getObjectMapper().readValue(refused.getResponseBody(), Problem.class);
        }
        throw new AssertionError("an odd width is not refused");
    }
}
