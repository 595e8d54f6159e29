import java.io.*;
import java.security.cert.*;
import java.util.Base64;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Lines "rules TAB base64 of a DER certificate": the distinguished name, a tab, and the name that the rules make of it. */
public class Principals {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, "UTF-8");
        for (String line; (line = in.readLine()) != null; ) {
            String[] f = line.split("\t", -1);
            X509Certificate certificate = (X509Certificate) CertificateFactory.getInstance("X.509")
                    .generateCertificate(new ByteArrayInputStream(Base64.getDecoder().decode(f[1])));
            String name = certificate.getSubjectX500Principal().getName();
            String mapped;
            try {
                mapped = SslPrincipalMapper.fromRules(f[0]).getName(name);
            } catch (Exception e) {
                mapped = "-";
            }
            out.println(name + "\t" + mapped);
        }
        out.flush();
    }
}
