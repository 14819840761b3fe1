// One member of a Hazelcast grid that keeps Bucket4j's buckets, and the door at which the node beside it asks.
//
//   GET /?u=KEY&n=COST   200: admitted.  429: rejected.  503: the grid gave no answer in time, or refused.
//   GET /status          {"members": M, "settled": B}: how many members it sees; whether these are all, it owns some of
//                        the partitions, and none of them is on its way.
//
//   java Member HAZELCAST.yaml PORT CAPACITY TOKENS NANOSECONDS TIMEOUT_MS
//
// A bucket holds CAPACITY tokens; TOKENS come back in NANOSECONDS, one by one.  Whoever owns a key's partition decides,
// by its own clock.

import com.hazelcast.config.Config;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.distributed.proxy.AsyncProxyManager;
import io.github.bucket4j.grid.hazelcast.Bucket4jHazelcast;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public final class Member {
    private static final int THREADS = 256; // as many as a node has connections: one waits for each answer
    private static final String BUCKETS = "buckets"; // the map
    private static final Pattern QUESTION = Pattern.compile("u=([^&]*)&n=([1-9][0-9]{0,17})");

    private final Config config;
    private final BucketConfiguration limit;
    private final long timeoutMs;
    private volatile HazelcastInstance grid; // null until it has joined
    private volatile AsyncProxyManager<String> buckets;

    private Member(Config config, BucketConfiguration limit, long timeoutMs) {
        this.config = config;
        this.limit = limit;
        this.timeoutMs = timeoutMs;
    }

    public static void main(String[] words) throws IOException {
        Duration period = Duration.ofNanos(Long.parseLong(words[4]));
        BucketConfiguration limit = BucketConfiguration.builder()
            .addLimit(bandwidth -> bandwidth
                .capacity(Long.parseLong(words[2]))
                .refillGreedy(Long.parseLong(words[3]), period))
            .build();
        Member member = new Member(Config.loadFromFile(new File(words[0])), limit, Long.parseLong(words[5]));
        member.open(Integer.parseInt(words[1]));
        member.join();
    }

    // The door opens first: whoever asks meanwhile is told that no member is seen yet.
    private void open(int port) throws IOException {
        HttpServer door = HttpServer.create(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), port), 0);
        door.setExecutor(Executors.newFixedThreadPool(THREADS));
        door.createContext("/", this::decide);
        door.createContext("/status", exchange -> answer(exchange, 200, status()));
        door.start();
    }

    private void join() {
        HazelcastInstance joined = Hazelcast.newHazelcastInstance(config);
        buckets = Bucket4jHazelcast.entryProcessorBasedBuilder(joined.<String, byte[]>getMap(BUCKETS)).build().asAsync();
        grid = joined;
    }

    // A key is taken as it is written: it need not be read, only told from others.
    private void decide(HttpExchange exchange) throws IOException {
        String query = exchange.getRequestURI().getRawQuery();
        Matcher question = QUESTION.matcher(query == null ? "" : query);
        if (!question.matches()) {
            answer(exchange, 400, "ask /?u=KEY&n=COST");
            return;
        }
        try {
            answer(exchange, admits(question.group(1), Long.parseLong(question.group(2))) ? 200 : 429, "");
        } catch (ExecutionException | TimeoutException | RuntimeException trouble) {
            answer(exchange, 503, trouble.toString());
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
            answer(exchange, 503, ended.toString());
        }
    }

    private boolean admits(String key, long cost) throws ExecutionException, InterruptedException, TimeoutException {
        if (buckets == null) {
            throw new IllegalStateException("it has not joined the grid yet");
        }
        return buckets.builder()
            .build(key, () -> CompletableFuture.completedFuture(limit))
            .tryConsume(cost)
            .get(timeoutMs, TimeUnit.MILLISECONDS);
    }

    private String status() {
        int seen = grid == null ? 0 : grid.getCluster().getMembers().size();
        int all = config.getNetworkConfig().getJoin().getTcpIpConfig().getMembers().size();
        return "{\"members\": %d, \"settled\": %b}".formatted(seen, seen >= all && ownsWhatItShall());
    }

    // Partitions get their owners when somebody first asks for one: not before all members are there, lest they move.
    private boolean ownsWhatItShall() {
        var here = grid.getCluster().getLocalMember();
        var service = grid.getPartitionService();
        boolean owns = service.getPartitions().stream().anyMatch(each -> here.equals(each.getOwner()));
        return owns && service.isLocalMemberSafe();
    }

    private static void answer(HttpExchange exchange, int status, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        try (exchange) {
            exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
        }
    }
}
