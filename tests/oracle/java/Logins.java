// Logs in with the Java client, once for each line of settings (NAME=VALUE, in Base64, with blanks between them), and
// prints what became of it: "ok", or the error's class and message. Lines are answered in order.
//   java Logins

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;

public final class Logins {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            Properties settings = new Properties();
            for (String word : line.split(" ")) {
                String[] pair = new String(Base64.getDecoder().decode(word)).split("=", 2);
                settings.put(pair[0], pair[1]);
            }
            String url = settings.getProperty("sasl.oauthbearer.token.endpoint.url", "");
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
            System.out.println(outcome(settings).replace('\n', ' '));
        }
    }

    static String outcome(Properties settings) throws InterruptedException {
        try (Admin admin = Admin.create(settings)) {
            admin.describeCluster().nodes().get();
            return "ok";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName() + " " + error.getCause().getMessage();
        } catch (RuntimeException error) {
            return error.getClass().getSimpleName() + " " + error.getMessage();
        }
    }
}
