// A REST catalogue of Iceberg's own making, on loopback: RestCatalogue PORT NAME=VALUE...
// The names are those of Iceberg's catalogue properties.

import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

public class RestCatalogue {
  public static void main(String[] args) throws Exception {
    Map<String, String> properties = new HashMap<>();
    for (int i = 1; i < args.length; i++) {
      String[] pair = args[i].split("=", 2);
      properties.put(pair[0], pair[1]);
    }
    properties.putIfAbsent("jdbc.schema-version", "V1");
    properties.put("catalog-impl", JdbcCatalog.class.getName());
    Catalog catalog = CatalogUtil.buildIcebergCatalog("forebay", properties, null);
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])));
    server.setHandler(context);
    server.start();
    server.join();
  }
}
