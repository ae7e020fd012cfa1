// Posts bodies that are refused before they are read: Client.java KIND HOST:PORT ROUNDS.
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Client {
    static final int KIB = 1024;
    static final Object[][] CASES = {
        {"/api/webhooks/payment", 16 * KIB * KIB, ""},
        {"/api/webhooks/storefront", 2 * KIB * KIB + 1, ""},
        {"/api/webhooks/storefront", KIB * KIB, ""},
        {"/api/webhooks/payment", 2 * KIB * KIB + 1, ""},
        {"/nowhere", 512 * KIB, ""},
        {"/livez", 512 * KIB, ""},
        {"/api/webhooks/payment", KIB * KIB, "gzip"},
        {"/api/commerce/checkout", 512 * KIB, ""},
    };

    static int withConnection(URI uri, byte[] body, String encoding) throws Exception {
        HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection();
        connection.setRequestMethod("POST");
        connection.setDoOutput(true);
        if (!encoding.isEmpty()) connection.setRequestProperty("Content-Encoding", encoding);
        connection.getOutputStream().write(body);
        int status = connection.getResponseCode();
        InputStream answer = connection.getErrorStream();
        if (answer != null) answer.readAllBytes();
        return status;
    }

    static int withClient(HttpClient client, URI uri, byte[] body, String encoding) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(uri).POST(HttpRequest.BodyPublishers.ofByteArray(body));
        if (!encoding.isEmpty()) request.header("Content-Encoding", encoding);
        return client.send(request.build(), HttpResponse.BodyHandlers.ofString()).statusCode();
    }

    public static void main(String[] arguments) {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        for (int turn = 0; turn < Integer.parseInt(arguments[2]); turn++) {
            int which = turn % CASES.length;
            Object[] chosen = CASES[which];
            byte[] body = new byte[(Integer) chosen[1]];
            URI uri = URI.create("http://" + arguments[1] + chosen[0]);
            String encoding = (String) chosen[2];
            try {
                boolean old = arguments[0].equals("connection");
                int status = old ? withConnection(uri, body, encoding) : withClient(client, uri, body, encoding);
                System.out.println(which + " " + status);
            } catch (Exception error) {
                System.out.println(which + " lost " + error);
            }
        }
    }
}
