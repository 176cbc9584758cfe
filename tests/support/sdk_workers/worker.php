<?php
// Behaves as a worker on the PHP SDK does, with its faults. What the variables mean: tests/README.md.
declare(strict_types=1);

function setting(string $name, int $usual): int
{
    $value = getenv($name);
    return $value === false ? $usual : (int) $value;
}

$base = rtrim((string) getenv('OJS_URL'), '/') . '/ojs/v1';
$poll = setting('SDK_POLL_MS', 2000) * 1000;
$heartbeat = setting('SDK_HEARTBEAT_MS', 15000) / 1000;
$concurrency = setting('SDK_CONCURRENCY', 5);
$directory = getenv('SDK_DIRECTORY') ?: null;
$running = true;
$quiet = false;

function note(string $word, string $job, int $attempt = 0): void
{
    global $directory;
    if ($directory !== null) {
        file_put_contents("$directory/journal", hrtime(true) . " $word $job $attempt\n", FILE_APPEND);
    }
}

function say(string $text): void
{
    fwrite(STDERR, $text . "\n");
}

/** A signal ends a sleep early; handlers of jobs sleep on. */
function sleep_for(int $ms): void
{
    $end = hrtime(true) + $ms * 1_000_000;
    while (($left = $end - hrtime(true)) > 0) {
        usleep(intdiv($left, 1000) + 1);
    }
}

/** A new handle, and so a new connection, for each request. */
function post(string $path, array $body): array
{
    global $base;
    for ($attempt = 0; ; $attempt++) {
        $headers = ['Content-Type: application/openjobspec+json', 'Accept: application/openjobspec+json', 'OJS-Version: 1.0',
            'X-Request-ID: ' . bin2hex(random_bytes(16))];
        $token = getenv('OJS_AUTH_TOKEN');
        if ($token !== false && $token !== '') {
            $headers[] = "Authorization: Bearer $token";
        }
        $handle = curl_init($base . $path);
        curl_setopt_array($handle, [
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_HTTPHEADER => $headers,
            CURLOPT_CONNECTTIMEOUT => 5,
            CURLOPT_TIMEOUT => 30,
            CURLOPT_CUSTOMREQUEST => 'POST',
            CURLOPT_POSTFIELDS => json_encode($body, JSON_THROW_ON_ERROR),
        ]);
        $reply = curl_exec($handle);
        $status = curl_getinfo($handle, CURLINFO_HTTP_CODE);
        $error = curl_error($handle);
        curl_close($handle);
        if ($error !== '' || !is_string($reply)) {
            throw new RuntimeException("no answer: $error");
        }
        if (in_array($status, [429, 502, 503, 504], true) && $attempt < 3) {
            usleep((int) (500_000 * 2 ** $attempt * (0.5 + lcg_value() * 0.5)));
            continue;
        }
        if ($status >= 400) {
            throw new RuntimeException("status $status");
        }
        return $reply === '' ? [] : json_decode($reply, true, 512, JSON_THROW_ON_ERROR);
    }
}

function handle(array $job): mixed
{
    $args = $job['args'] ?? [0];
    if ($job['type'] === 'ok') {
        return $args[0];
    }
    sleep_for((int) $args[0]);
    if ($job['type'] === 'enqueue') {
        post('/jobs', ['type' => $args[1], 'args' => array_slice($args, 2), 'queue' => $job['queue']]);
    }
    if ($job['type'] === 'fail') {
        throw new RuntimeException('failed as told');
    }
    return $job['type'] === 'large' ? str_repeat('x', $args[1]) : ['slept' => $args[0]];
}

function run(array $job): void
{
    global $directory;
    $id = $job['id'];
    $attempt = (int) ($job['attempt'] ?? 0);
    $lock = fopen(($directory ?? '/tmp') . "/job-$id", 'a');
    note(flock($lock, LOCK_EX | LOCK_NB) ? 'took' : 'overlap', $id, $attempt);
    try {
        [$word, $path, $body] = ['acked', '/workers/ack', ['job_id' => $id, 'result' => handle($job)]];
    } catch (Throwable $error) {
        $failure = ['type' => get_class($error), 'message' => $error->getMessage(), 'backtrace' => ['worker.php']];
        [$word, $path, $body] = ['failed', '/workers/nack', ['job_id' => $id, 'error' => $failure]];
    }
    fclose($lock);
    note('ended', $id, $attempt);
    try {
        post($path, $body);
        note($word, $id, $attempt);
    } catch (Throwable $error) {
        note('unreported', $id, $attempt);
        say("job $id: {$error->getMessage()}");
    }
}

function beat(): void
{
    global $running, $quiet;
    try {
        // Without an id of the worker.
        $directive = post('/workers/heartbeat', ['queues' => ['default']])['directive'] ?? 'running';
        $quiet = $quiet || $directive === 'quiet';
        $running = $running && $directive !== 'terminate';
    } catch (Throwable $error) {
        say("heartbeat: {$error->getMessage()}");
    }
}

pcntl_async_signals(true);
$stop = function () use (&$running): void {
    note('terminated', (string) getmypid());
    $running = false;
};
pcntl_signal(SIGTERM, $stop);
pcntl_signal(SIGINT, $stop);
pcntl_signal(SIGQUIT, function () use (&$quiet): void {
    $quiet = true;
});
note('started', (string) getmypid());
// Longest that a worker is there that nobody ends.
pcntl_alarm(setting('SDK_LIFE_S', 0));
if ($directory !== null) {
    $alive = fopen("$directory/alive", 'a');
    flock($alive, LOCK_SH);
}
$last = hrtime(true) / 1e9;
while ($running) {
    if (!$quiet) {
        try {
            $jobs = post('/workers/fetch', ['queues' => ['default'], 'count' => $concurrency])['jobs'] ?? [];
        } catch (Throwable $error) {
            say("fetch: {$error->getMessage()}");
            $jobs = [];
        }
        // One after the other, whatever is asked for meanwhile.
        foreach ($jobs as $job) {
            run($job);
        }
    }
    if (hrtime(true) / 1e9 - $last >= $heartbeat) {
        beat();
        $last = hrtime(true) / 1e9;
    }
    usleep($poll);
}
