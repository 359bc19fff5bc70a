// One suite by pgjdbc: java -cp DRIVER Postgres.java URL...
// For each URL prints what each step gave, a line a step, and an empty line; a failed statement as
// its SQLSTATE, and whether a HINT names a decision.

import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLException;

public class Postgres {
    static final String SLEEPING =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND usename = 'app'";

    public static void main(String[] urls) throws Exception {
        for (String url : urls) {
            suite(url + "&preferQueryMode=simple");
            suite(url + "&preferQueryMode=extended");
            try (Connection it = DriverManager.getConnection(url + "&autosave=always")) {
                autosave(it);
            }
            cancel(url);
            System.out.println();
        }
    }

    static void step(String name, Callable<Object> asked) {
        String gave;
        try {
            gave = String.valueOf(asked.call());
        } catch (BatchUpdateException error) {
            gave = failed(error.getNextException()) + " in a batch";
        } catch (SQLException error) {
            gave = failed(error);
        } catch (Exception error) {
            gave = error.toString();
        }
        System.out.println(name + ": " + gave);
    }

    static String failed(SQLException error) {
        var told = error instanceof PSQLException found ? found.getServerErrorMessage() : null;
        String hint = told == null ? null : told.getHint();
        boolean isNamed = hint != null && hint.matches("svc why [0-9a-f]{32}");
        return error.getSQLState() + " " + isNamed;
    }

    static List<Object> rows(ResultSet found) throws SQLException {
        List<Object> rows = new ArrayList<>();
        while (found.next()) {
            rows.add(found.getObject(1));
        }
        return rows;
    }

    static Object simple(Connection it, String text) throws SQLException {
        try (Statement statement = it.createStatement()) {
            return statement.execute(text)
                ? rows(statement.getResultSet()) : statement.getUpdateCount();
        }
    }

    static Object prepared(Connection it, String text, int... values) throws SQLException {
        try (PreparedStatement statement = it.prepareStatement(text)) {
            for (int at = 0; at < values.length; at++) {
                statement.setInt(at + 1, values[at]);
            }
            return statement.execute()
                ? rows(statement.getResultSet()) : statement.getUpdateCount();
        }
    }

    static void suite(String url) throws SQLException {
        try (Connection it = DriverManager.getConnection(url)) {
            statements(it);
            transactions(it);
            copies(it);
        }
    }

    static void statements(Connection it) {
        step("simple", () -> simple(it, "SELECT 1"));
        for (int count = 0; count < 7; count++) {  // from the fifth on it is a named statement
            step("prepared", () -> prepared(it, "SELECT id FROM orders WHERE id = ?", 7));
        }
        step("several", () -> simple(it, "SELECT 1; SELECT 2"));
        step("denied", () -> simple(it, "DROP TABLE not_there"));
        step("denied, prepared", () -> prepared(it, "DROP TABLE not_there"));
        step("error", () -> prepared(it, "SELECT ? / 0", 1));
        step("tables", () -> rows(it.getMetaData().getColumns(null, "public", "orders", null)).size());
        step("large", () -> prepared(it, "SELECT length(repeat('x', ?))", 500_000));
        step("batch", () -> batch(it, "INSERT INTO orders VALUES (?)", 300, 1000));
        step("count", () -> simple(it, "SELECT count(*) FROM orders WHERE id >= 300"));
        step("batch with a denied one", () -> {
            try (Statement statement = it.createStatement()) {
                statement.addBatch("INSERT INTO orders VALUES (299)");
                statement.addBatch("DROP TABLE not_there");
                statement.addBatch("INSERT INTO orders VALUES (299)");
                return statement.executeBatch().length;
            }
        });
        step("notify", () -> {
            simple(it, "LISTEN news");
            simple(it, "NOTIFY news, 'told'");
            simple(it, "UNLISTEN news");
            return it.unwrap(PGConnection.class).getNotifications()[0].getParameter();
        });
        step("goes on", () -> simple(it, "SELECT 'on'"));
    }

    static Object batch(Connection it, String text, int first, int end) throws SQLException {
        try (PreparedStatement statement = it.prepareStatement(text)) {
            for (int value = first; value < end; value++) {
                statement.setInt(1, value);
                statement.addBatch();
            }
            return statement.executeBatch().length;
        }
    }

    static void transactions(Connection it) throws SQLException {
        it.setAutoCommit(false);
        step("by portions", () -> {
            try (Statement statement = it.createStatement()) {
                statement.setFetchSize(100);
                return rows(statement.executeQuery("SELECT id FROM orders WHERE id >= 300")).size();
            }
        });
        step("delete", () -> prepared(it, "DELETE FROM orders WHERE id >= ?", 299));
        Savepoint before = it.setSavepoint("before");
        step("insert", () -> prepared(it, "INSERT INTO orders VALUES (?)", 301));
        step("denied in a transaction", () -> prepared(it, "DROP TABLE not_there"));
        step("aborted", () -> simple(it, "SELECT 3"));
        it.rollback(before);
        step("again", () -> prepared(it, "SELECT count(*) FROM orders WHERE id = ?", 301));
        it.commit();
        step("insert", () -> prepared(it, "INSERT INTO orders VALUES (?)", 302));
        step("denied in a transaction", () -> simple(it, "DROP TABLE not_there"));
        it.rollback();
        it.setAutoCommit(true);
        step("rolled back", () -> simple(it, "SELECT id FROM orders"));
    }

    static void copies(Connection it) throws SQLException {
        var copies = it.unwrap(PGConnection.class).getCopyAPI();
        it.setAutoCommit(false);
        step("copy in", () -> copies.copyIn("COPY orders FROM STDIN", new StringReader("8\n9\n")));
        step("copy out", () -> {
            var out = new ByteArrayOutputStream();
            copies.copyOut("COPY orders TO STDOUT", out);
            return out.toString().replace('\n', ' ');
        });
        step("copy with an error", () ->
            copies.copyIn("COPY orders FROM STDIN", new StringReader("nine\n")));
        it.rollback();
        it.setAutoCommit(true);
        step("denied copy", () -> copies.copyIn(
            "COPY not_there FROM PROGRAM 'true'", new StringReader("")));
        it.setAutoCommit(false);
        step("large object, by FunctionCall", () ->
            it.unwrap(PGConnection.class).getLargeObjectAPI().createLO() > 0);
        it.rollback();
        it.setAutoCommit(true);
        step("goes on", () -> simple(it, "SELECT id FROM orders"));
    }

    static void autosave(Connection it) throws SQLException {
        it.setAutoCommit(false);
        step("insert", () -> prepared(it, "INSERT INTO orders VALUES (?)", 303));
        step("denied, saved before", () -> prepared(it, "DROP TABLE not_there"));
        step("goes on", () -> prepared(it, "SELECT count(*) FROM orders WHERE id = ?", 303));
        it.rollback();
    }

    static void cancel(String url) throws Exception {
        ExecutorService threads = Executors.newSingleThreadExecutor();
        try (Connection it = DriverManager.getConnection(url);
                Connection other = DriverManager.getConnection(url);
                Statement waiting = it.createStatement()) {
            Future<Boolean> over = threads.submit(() -> {
                step("cancelled", () -> waiting.execute("SELECT pg_sleep(60)"));
                return true;
            });
            while (!"[1]".equals(String.valueOf(simple(other, SLEEPING)))) {
                Thread.onSpinWait();
            }
            waiting.cancel();
            over.get();
            step("goes on", () -> simple(it, "SELECT 'on'"));
        } finally {
            threads.shutdown();
        }
    }
}
